from django.db import migrations, models

import django_dbqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0007_operator_verbs"),
    ]

    operations = [
        migrations.CreateModel(
            name="Flow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", django_dbqueue.models.fields.KeyField(max_length=200, verbose_name="name")),
                (
                    "created_at",
                    django_dbqueue.models.fields.UTCDateTimeField(
                        db_default=django_dbqueue.models.fields.DbNow(), verbose_name="created at"
                    ),
                ),
            ],
            options={
                "verbose_name": "flow",
                "verbose_name_plural": "flows",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="FlowPart",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "flow", "first_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("flow", models.BigIntegerField()),
                ("first_id", models.BigIntegerField()),
                ("last_id", models.BigIntegerField()),
                ("messages", models.PositiveIntegerField()),
                ("parent", models.BigIntegerField(null=True)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="message",
            name="flow",
            field=models.BigIntegerField(null=True, verbose_name="flow"),
        ),
        migrations.AddField(
            model_name="result",
            name="flow",
            field=models.BigIntegerField(null=True, verbose_name="flow"),
        ),
        migrations.CreateModel(
            name="Edge",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "downstream", "upstream", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("downstream", models.BigIntegerField()),
                ("upstream", models.BigIntegerField()),
                ("needs", django_dbqueue.models.fields.AsciiField(max_length=8)),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["upstream", "downstream"], name="dbqueue_edge_upstream")],
            },
        ),
    ]
