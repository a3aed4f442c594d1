from django.db import migrations, models

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0003_groups"),
    ]

    operations = [
        migrations.CreateModel(
            name="Once",
            fields=[
                (
                    "hash",
                    django_dbqueue.models.fields.AsciiField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="hash"
                    ),
                ),
                ("message_id", models.BigIntegerField(verbose_name="message")),
                ("expires_at", django_dbqueue.models.fields.UTCDateTimeField(verbose_name="kept until")),
            ],
            options={
                "verbose_name": "token",
                "verbose_name_plural": "tokens",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["expires_at"], name="dbqueue_once_end")],
            },
        ),
    ]
