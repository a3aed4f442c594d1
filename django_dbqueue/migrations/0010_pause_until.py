from django.db import migrations, models

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0009_schedules"),
    ]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="paused_until",
            field=django_dbqueue.models.fields.UTCDateTimeField(blank=True, null=True, verbose_name="paused until"),
        ),
        # The column stays as it is; is_paused also depends on the end now
        migrations.AlterField(
            model_name="queue",
            name="is_paused",
            field=models.BooleanField(db_column="is_paused", db_default=False, default=False, verbose_name="paused"),
        ),
        migrations.RenameField(model_name="queue", old_name="is_paused", new_name="pause_set"),
    ]
