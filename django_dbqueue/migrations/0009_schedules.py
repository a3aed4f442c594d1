from django.db import migrations, models

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0008_flows"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="schedule",
            options={
                "default_permissions": ("view", "add", "change", "delete"),
                "permissions": (
                    ("disable_schedule", "Can disable and enable schedules"),
                    ("run_schedule", "Can run schedules now"),
                ),
                "verbose_name": "schedule",
                "verbose_name_plural": "schedules",
            },
        ),
        migrations.AddField(
            model_name="schedule",
            name="body",
            field=django_dbqueue.models.fields.ExactTextField(blank=True, null=True, verbose_name="payload"),
        ),
        migrations.AddField(
            model_name="schedule",
            name="disabled_at",
            field=django_dbqueue.models.fields.UTCDateTimeField(blank=True, null=True, verbose_name="disabled at"),
        ),
        migrations.AddField(
            model_name="schedule",
            name="disabled_by",
            field=models.CharField(blank=True, db_default="", default="", max_length=150, verbose_name="disabled by"),
        ),
        migrations.AddField(
            model_name="schedule",
            name="disabled_reason",
            field=models.CharField(blank=True, db_default="", default="", max_length=500, verbose_name="reason"),
        ),
        migrations.AddField(
            model_name="schedule",
            name="is_added",
            field=models.BooleanField(db_default=False, default=False, verbose_name="added by an operator"),
        ),
        migrations.AddField(
            model_name="schedule",
            name="key",
            field=django_dbqueue.models.fields.KeyField(blank=True, max_length=200, null=True, verbose_name="key"),
        ),
        migrations.AddField(
            model_name="schedule",
            name="missed",
            field=django_dbqueue.models.fields.AsciiField(
                db_default="latest", default="latest", max_length=8, verbose_name="missed due times"
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="revision",
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
