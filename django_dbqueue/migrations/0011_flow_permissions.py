from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0010_pause_until"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="flow",
            options={
                "default_permissions": ("view",),
                "permissions": (("cancel_flow", "Can cancel flows"),),
                "verbose_name": "flow",
                "verbose_name_plural": "flows",
            },
        ),
    ]
