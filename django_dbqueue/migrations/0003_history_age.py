from django.db import migrations, models

from django_dbqueue.models.fields import ExactTextField


class Migration(migrations.Migration):
    """Where workers remember how far they have deleted the history by age."""

    dependencies = [("django_dbqueue", "0002_types")]

    operations = [
        migrations.CreateModel(
            name="HistoryAge",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("seen_us", models.BigIntegerField()),
                ("gaps", ExactTextField()),
                ("places", ExactTextField()),
                ("gone_to", models.BigIntegerField()),
                ("purged_to", models.BigIntegerField(null=True)),
            ],
            options={"default_permissions": ()},
        ),
    ]
