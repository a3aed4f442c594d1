"""Whether the tables have the names under which the queue's own statements look for them."""

from __future__ import annotations

from django.apps import apps
from django.core import checks

from django_dbqueue.databases.own_tables import Tables


def check_table_names(**_: object) -> list[checks.CheckMessage]:
    """Refuse tables under other names: Django would create and read those, and the statements wouldn't find them."""
    known = {value for value in vars(Tables).values() if isinstance(value, str)}
    others = sorted(
        model._meta.db_table
        for model in apps.get_app_config("django_dbqueue").get_models()
        if model._meta.db_table not in {*known, f"django_dbqueue_{model._meta.model_name}"}
    )
    if not others:
        return []
    return [
        checks.Error(
            f"Something in this project gives the queue's tables other names: {', '.join(others)}. The queue's own "
            "statements name them literally, and would find none.",
            hint="A receiver of class_prepared, or another hook that renames tables, has to leave out the models of "
            "the app django_dbqueue. To keep projects apart on one server, give each its own database or schema.",
            id="dbqueue.E025",
        )
    ]
