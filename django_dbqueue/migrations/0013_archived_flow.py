from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0012_stream_progress"),
    ]

    operations = [
        migrations.AddField(
            model_name="archivedmessage",
            name="flow",
            field=models.BigIntegerField(null=True, verbose_name="flow"),
        ),
    ]
