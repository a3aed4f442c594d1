from django.db import migrations, models

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0005_steps"),
    ]

    operations = [
        migrations.CreateModel(
            name="QueueTotal",
            fields=[
                (
                    "queue",
                    django_dbqueue.models.fields.AsciiField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="queue"
                    ),
                ),
                ("messages", models.BigIntegerField(verbose_name="messages")),
                ("failures", models.BigIntegerField(verbose_name="failed deliveries")),
                ("retries", models.BigIntegerField(verbose_name="retries")),
                ("dead", models.BigIntegerField(verbose_name="dead")),
                ("wait", django_dbqueue.models.fields.ExactTextField(verbose_name="histogram of waits")),
                ("run", django_dbqueue.models.fields.ExactTextField(verbose_name="histogram of run times")),
            ],
            options={
                "verbose_name": "total",
                "verbose_name_plural": "totals",
                "default_permissions": (),
            },
        ),
    ]
