from __future__ import annotations

from django.db import migrations

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Mutex",
            fields=[
                ("name", django_dbqueue.models.fields.AsciiField(max_length=32, primary_key=True, serialize=False)),
            ],
            options={
                "default_permissions": (),
            },
        ),
    ]
