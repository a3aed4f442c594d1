from django.db import migrations

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0006_totals"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="message",
            options={
                "default_permissions": ("view",),
                "permissions": (
                    ("requeue_message", "Can requeue messages"),
                    ("hasten_message", "Can make messages due now"),
                    ("release_message", "Can release messages"),
                    ("reject_message", "Can reject messages"),
                    ("resend_message", "Can send messages again"),
                    ("edit_message", "Can send messages anew with an edited payload"),
                    ("move_message", "Can move messages to another queue"),
                    ("drop_message", "Can drop messages"),
                    ("view_payload", "Can see payloads"),
                ),
                "verbose_name": "message",
                "verbose_name_plural": "messages",
            },
        ),
        migrations.AddField(
            model_name="bulkoperation",
            name="target",
            field=django_dbqueue.models.fields.AsciiField(
                db_default="", default="", max_length=64, verbose_name="queue to move to"
            ),
        ),
    ]
