from django.db import migrations, models

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0011_flow_permissions"),
    ]

    operations = [
        migrations.CreateModel(
            name="StreamProgress",
            fields=[
                (
                    "name",
                    django_dbqueue.models.fields.AsciiField(
                        max_length=80, primary_key=True, serialize=False, verbose_name="name"
                    ),
                ),
                (
                    "query_id",
                    django_dbqueue.models.fields.AsciiField(db_index=True, max_length=36, verbose_name="query"),
                ),
                ("messages", models.BigIntegerField(verbose_name="messages")),
                ("rate", models.FloatField(verbose_name="messages per second")),
                ("backlog", models.BigIntegerField(verbose_name="backlog")),
                (
                    "backlog_capped",
                    models.PositiveSmallIntegerField(verbose_name="whether the backlog is larger than counted"),
                ),
                ("failures", models.BigIntegerField(verbose_name="failures")),
                ("progressed_at", django_dbqueue.models.fields.UTCDateTimeField(verbose_name="last progress")),
                ("failed_at", django_dbqueue.models.fields.UTCDateTimeField(null=True, verbose_name="last failure")),
                ("error", django_dbqueue.models.fields.ExactTextField(null=True, verbose_name="error")),
            ],
            options={
                "verbose_name": "progress of a stream",
                "verbose_name_plural": "progress of streams",
                "default_permissions": (),
            },
        ),
    ]
