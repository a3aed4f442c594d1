from django.db import migrations, models

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Result",
            fields=[
                ("message_id", models.BigIntegerField(primary_key=True, serialize=False, verbose_name="message")),
                ("body", django_dbqueue.models.fields.ExactTextField(verbose_name="body")),
                ("content_type", django_dbqueue.models.fields.AsciiField(max_length=16, verbose_name="content type")),
                ("expires_at", django_dbqueue.models.fields.UTCDateTimeField(verbose_name="kept until")),
            ],
            options={
                "verbose_name": "result",
                "verbose_name_plural": "results",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["expires_at"], name="dbqueue_result_end")],
            },
        ),
    ]
