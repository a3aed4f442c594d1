"""A project that gives all tables a prefix, by a receiver that is there before the models are."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import class_prepared

from tests.settings import *  # noqa: F403


def add_prefix(sender: Any, **_: object) -> None:
    if not sender._meta.db_table.startswith("shop_"):
        sender._meta.db_table = f"shop_{sender._meta.db_table}"


class_prepared.connect(add_prefix)
