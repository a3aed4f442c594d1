"""The order of the letters in MySQL's and MariaDB's ENUM, by which the claim index is sorted."""

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def sort_as_the_field_says(apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Write the column anew, which rebuilds the table; one that has the order already stays as it is."""
    if schema_editor.connection.vendor != "mysql":
        return
    message = apps.get_model("django_dbqueue", "Message")
    field = message._meta.get_field("status")
    quote = schema_editor.quote_name
    definition = f"{field.db_type(schema_editor.connection)} NOT NULL DEFAULT '{field.db_default}'"
    schema_editor.execute(f"ALTER TABLE {quote(message._meta.db_table)} MODIFY {quote(field.column)} {definition}")


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0006_console"),
    ]

    operations = [
        migrations.RunPython(sort_as_the_field_says, migrations.RunPython.noop, atomic=False),
    ]
