from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ProjectState

import django_dbqueue.models.fields
from django_dbqueue.databases.mysql_facts import collations


class SayCharacters(migrations.AlterField):
    """Give a column its character set: on MySQL and MariaDB alone, and only where it has another one.

    Elsewhere a column has none of its own, and SQLite would copy the whole table. Back again nothing is done: what the
    column holds by then may not fit into what it was.
    """

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        model: Any = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor == "mysql" and not self._is_right(model, schema_editor):
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, *_: Any) -> None:
        pass

    def _is_right(self, model: Any, schema_editor: BaseDatabaseSchemaEditor) -> bool:
        field = model._meta.get_field(self.name)
        question = collations([model._meta.db_table])
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(question.sql, question.params)
            said = {column: rest for _table, column, *rest in cursor.fetchall()}
        characters, collation = said.get(field.column, (None, None))
        return f"CHARACTER SET {characters} COLLATE {collation}" in field.db_type(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [
        ("django_dbqueue", "0014_replica_beat"),
    ]

    operations = [
        SayCharacters(
            model_name="bulkoperation",
            name="ordered_by",
            field=django_dbqueue.models.fields.KeyField(max_length=255, verbose_name="ordered by"),
        ),
        SayCharacters(
            model_name="bulkoperation",
            name="user_id",
            field=django_dbqueue.models.fields.KeyField(max_length=255, verbose_name="user"),
        ),
        SayCharacters(
            model_name="exportbatch",
            name="lake",
            field=django_dbqueue.models.fields.KeyField(max_length=200, verbose_name="lake"),
        ),
        SayCharacters(
            model_name="failure",
            name="exception",
            field=django_dbqueue.models.fields.KeyField(max_length=200, verbose_name="exception"),
        ),
        SayCharacters(
            model_name="failure",
            name="place",
            field=django_dbqueue.models.fields.KeyField(max_length=300, verbose_name="place"),
        ),
        SayCharacters(
            model_name="group",
            name="pause_reason",
            field=django_dbqueue.models.fields.KeyField(
                blank=True, db_default="", default="", max_length=500, verbose_name="reason"
            ),
        ),
        SayCharacters(
            model_name="group",
            name="paused_by",
            field=django_dbqueue.models.fields.KeyField(
                blank=True, db_default="", default="", max_length=150, verbose_name="paused by"
            ),
        ),
        SayCharacters(
            model_name="queue",
            name="pause_reason",
            field=django_dbqueue.models.fields.KeyField(
                blank=True, db_default="", default="", max_length=500, verbose_name="reason"
            ),
        ),
        SayCharacters(
            model_name="queue",
            name="paused_by",
            field=django_dbqueue.models.fields.KeyField(
                blank=True, db_default="", default="", max_length=150, verbose_name="paused by"
            ),
        ),
        SayCharacters(
            model_name="schedule",
            name="disabled_by",
            field=django_dbqueue.models.fields.KeyField(
                blank=True, db_default="", default="", max_length=150, verbose_name="disabled by"
            ),
        ),
        SayCharacters(
            model_name="schedule",
            name="disabled_reason",
            field=django_dbqueue.models.fields.KeyField(
                blank=True, db_default="", default="", max_length=500, verbose_name="reason"
            ),
        ),
        SayCharacters(
            model_name="stream",
            name="runner",
            field=django_dbqueue.models.fields.KeyField(
                db_default="", default="", max_length=200, verbose_name="runner"
            ),
        ),
        SayCharacters(
            model_name="worker",
            name="host",
            field=django_dbqueue.models.fields.KeyField(max_length=255, verbose_name="host"),
        ),
        SayCharacters(
            model_name="worker",
            name="queues",
            field=django_dbqueue.models.fields.ExactTextField(verbose_name="queues"),
        ),
        SayCharacters(
            model_name="worker",
            name="server",
            field=django_dbqueue.models.fields.KeyField(
                db_default="", default="", max_length=200, verbose_name="server of the session"
            ),
        ),
    ]
