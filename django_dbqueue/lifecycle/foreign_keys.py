"""A project's own foreign keys to messages, whose constraints keep a row from leaving the table."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import models


def pointing_to() -> list[Any]:
    """Return the fields, also of tables that Django makes by itself (many-to-many), that the server enforces.

    Where the server itself empties or deletes what points to a row (Django 6.1's DB_CASCADE, DB_SET_NULL), nothing
    keeps it.
    """
    by_server = getattr(models.deletion, "DatabaseOnDelete", ())
    message = apps.get_model("django_dbqueue", "Message")
    return [
        each
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy and model._meta.app_label != "django_dbqueue"
        for each in model._meta.local_fields
        if isinstance(each, models.ForeignKey)
        and getattr(each, "db_constraint", True)
        and isinstance(each.remote_field.model, type)
        and each.remote_field.model._meta.concrete_model is message
        and not isinstance(each.remote_field.on_delete, by_server)
    ]


def spelled(field: Any) -> str:
    """Return a field's name for people: shop.Order.message."""
    return f"{field.model._meta.label}.{field.name}"
