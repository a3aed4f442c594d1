from django.db import migrations

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0013_archived_flow"),
    ]

    operations = [
        migrations.CreateModel(
            name="ReplicaBeat",
            fields=[
                ("name", django_dbqueue.models.fields.AsciiField(max_length=32, primary_key=True, serialize=False)),
                ("at", django_dbqueue.models.fields.UTCDateTimeField()),
            ],
            options={
                "default_permissions": (),
            },
        ),
    ]
