from django.db import migrations, models


class Migration(migrations.Migration):
    """The list of groups finds those that have a limit or a rate of their own among all that have a row."""

    dependencies = [("django_dbqueue", "0004_cancel")]

    operations = [
        migrations.AddField(
            model_name="group",
            name="has_own",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.ExpressionWrapper(
                    models.Q(("width__isnull", False), ("rate__isnull", False), _connector="OR"),
                    output_field=models.BooleanField(),
                ),
                output_field=models.BooleanField(),
            ),
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(fields=["has_own", "lane"], name="dbqueue_group_own"),
        ),
    ]
