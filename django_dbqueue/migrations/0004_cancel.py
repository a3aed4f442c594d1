from django.db import migrations, models


class Migration(migrations.Migration):
    """Workers are called when something that they run is cancelled, which needs a permission."""

    dependencies = [("django_dbqueue", "0003_history_age")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="is_called",
            field=models.BooleanField(db_default=False, default=False, verbose_name="called"),
        ),
        migrations.AlterModelOptions(
            name="message",
            options={
                "default_permissions": ("view",),
                "permissions": (
                    ("requeue_message", "Can requeue messages"),
                    ("hasten_message", "Can make messages due now"),
                    ("release_message", "Can release messages"),
                    ("cancel_message", "Can cancel messages"),
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
    ]
