from django.db import migrations

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0015_text_columns"),
    ]

    operations = [
        migrations.AddField(
            model_name="messageevent",
            name="exception",
            field=django_dbqueue.models.fields.KeyField(max_length=300, null=True, verbose_name="exception"),
        ),
    ]
