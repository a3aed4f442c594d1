"""Rows to messages: what a model's ``from_db`` does, at a fifth of its cost.

A claim builds a hundred messages at once, and Django's constructor looks up every field again for each of them. Here
the fields are looked up once per model and column list, and a message is a filled ``__dict__``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.db import connections, models
from django.db.models.base import ModelState
from django.db.models.signals import post_init, pre_init

from django_dbqueue.databases.statements import MESSAGE_COLUMNS, Row

MessageType = type[models.Model]
_FROM_DB = models.Model.from_db.__func__  # type: ignore[attr-defined]


class _Plan(NamedTuple):
    """Which attributes the columns fill, and which conversions some of them need."""

    names: tuple[str, ...]
    conversions: tuple[tuple[str, Callable[[object, object, object], object]], ...]


@cache
def _plan(model: MessageType, columns: tuple[str, ...]) -> _Plan:
    by_column = {str(field.column): field for field in model._meta.concrete_fields}
    fields = [by_column[column] for column in columns]
    conversions = [(f.attname, f.from_db_value) for f in fields if hasattr(f, "from_db_value")]
    return _Plan(tuple(field.attname for field in fields), tuple(conversions))


def hydrate(model: MessageType, using: str, row: Row, **instead: Any) -> Any:
    """Build a message from a row in the order of MESSAGE_COLUMNS, as the driver returned it."""
    return hydrate_all(model, using, [row], MESSAGE_COLUMNS, **instead)[0]


def hydrate_all(
    model: MessageType, using: str, rows: Iterable[Sequence[object]], columns: tuple[str, ...], **same: Any
) -> list[Any]:
    """Build messages from rows in the order of these columns; ``same`` holds attributes that all of them share."""
    return list(map(hydrator(model, using, columns, **same), rows))


def hydrator(
    model: MessageType, using: str, columns: tuple[str, ...], *, own: Sequence[str] = (), **same: Any
) -> Callable[..., Any]:
    """Return a function that builds a message from a row in the order of these columns, in any thread.

    ``own`` names the attributes whose values are given per row, as the second argument. Fields not covered are read on
    access, as after ``defer()``.
    """
    names, conversions = _plan(model, columns)
    needed = [each for each in conversions if each[0] not in own and each[0] not in same]
    connection = connections[using]
    fill = filler(model)

    def make(row: Sequence[object], anew: Sequence[object] = ()) -> Any:
        values = dict(zip(names, row, strict=False))
        for name, convert in needed:
            if values[name] is not None:
                values[name] = convert(values[name], None, connection)
        values.update(same)
        values.update(zip(own, anew, strict=True))
        return fill(model, using, values)

    return make


def filler(model: MessageType) -> Callable[[MessageType, str, dict[str, object]], Any]:
    """Return the function that builds a message from its attributes.

    A project's proxy may customise how its objects are built.
    """
    is_custom = model.__init__ is not models.Model.__init__ or model.from_db.__func__ is not _FROM_DB  # type: ignore[attr-defined]
    if is_custom or pre_init.has_listeners(model) or post_init.has_listeners(model):
        return _made_otherwise
    return _filled


def _filled(model: MessageType, using: str, values: dict[str, object]) -> Any:
    message: Any = model.__new__(model)
    values["_state"] = state = ModelState()
    state.db, state.adding = using, False
    message.__dict__ = values
    return message


def _made_otherwise(model: MessageType, using: str, values: dict[str, object]) -> Any:
    """Let Django's own constructor build it, with everything known, so that listeners needn't read it."""
    fields = [field.attname for field in model._meta.concrete_fields if field.attname in values]
    message = model.from_db(using, fields, [values[name] for name in fields])
    for name in values.keys() - fields:
        setattr(message, name, values[name])
    return message
