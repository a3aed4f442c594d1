from django.db import migrations

from django_dbqueue.models.fields import ExactTextField


class Migration(migrations.Migration):
    """What a task or a step returned, and the payload of an event, have the types of their values beside them."""

    dependencies = [("django_dbqueue", "0001_squashed")]

    operations = [
        migrations.AddField(model_name=name, name="types", field=ExactTextField(null=True, verbose_name="types"))
        for name in ("event", "result", "step")
    ]
