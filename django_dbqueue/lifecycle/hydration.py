"""Rows to messages: what a model's ``from_db`` does, at a fifth of its cost.

A claim builds a hundred messages at once, and Django's constructor looks up every field again for each of them. Here
the fields are looked up once per model and column list, and a message is a filled ``__dict__``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from django.db import connections, models
from django.db.models.base import ModelState
from django.db.models.signals import post_init, pre_init

from django_dbqueue.databases.statement import Row
from django_dbqueue.statements.message_columns import MESSAGE_COLUMNS

MessageType = type[models.Model]
UNREAD: Final = "_unread"
"""The attribute under which a claimed message keeps its moments, by attribute, as they were read, until asked."""
_FROM_DB = models.Model.from_db.__func__  # type: ignore[attr-defined]


class _Plan(NamedTuple):
    """Which attributes the columns fill, and which of these are moments."""

    names: tuple[str, ...]
    moments: tuple[str, ...]


@cache
def _plan(model: MessageType, columns: tuple[str, ...]) -> _Plan:
    by_column = {str(field.column): field for field in model._meta.concrete_fields}
    fields = [by_column[column] for column in columns]
    moments = tuple(field.attname for field in fields if isinstance(field, models.DateTimeField))
    return _Plan(tuple(field.attname for field in fields), moments)


def hydrate(model: MessageType, using: str, row: Row) -> Any:
    """Build a message from a row in the order of MESSAGE_COLUMNS, as the driver returned it."""
    message = hydrator(model, using, MESSAGE_COLUMNS)(row)
    for name in _plan(model, MESSAGE_COLUMNS).moments:
        getattr(message, name)
    return message


def hydrator(
    model: MessageType, using: str, columns: tuple[str, ...], *, own: Sequence[str] = (), **same: Any
) -> Callable[..., Any]:
    """Return a function that builds a message from a row in the order of these columns, in any thread.

    ``own`` names the attributes whose values are given per row, as the second argument; ``same`` are those that all
    rows share. Moments are converted when they are read. Fields not covered are read from the database on access, as
    after ``defer()``.
    """
    gather = _gatherer(model, columns, tuple(own), tuple(same))
    fill = filler(model)

    def make(row: Sequence[object], per_row: Sequence[object] = ()) -> Any:
        return fill(model, using, gather(row, per_row, same))

    return make


@cache
def _gatherer(
    model: MessageType, columns: tuple[str, ...], own: tuple[str, ...], same: tuple[str, ...]
) -> Callable[..., dict[str, object]]:
    """Return a function that makes a message's attributes of a row, of its own values and of the shared ones.

    Its source is written for these names, as a dataclass's ``__init__`` is: one dict display, and no loop over columns.
    """
    names, moments = _plan(model, columns)
    cells = {name: f"row[{at}]" for at, name in enumerate(names)}
    unread = {name: cells.pop(name) for name in moments if name not in own and name not in same}
    cells |= {name: f"same[{name!r}]" for name in same}
    cells |= {name: f"per_row[{at}]" for at, name in enumerate(own)}
    cells[UNREAD] = _display(unread)
    made: dict[str, Any] = {}
    exec(f"def gather(row, per_row, same):\n    return {_display(cells)}", made)
    gather: Callable[..., dict[str, object]] = made["gather"]
    return gather


def _display(cells: dict[str, str]) -> str:
    return f"{{{', '.join(f'{name!r}: {cell}' for name, cell in cells.items())}}}"


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
    unread: Any = values.pop(UNREAD, {})
    for name, left in unread.items():
        values[name] = model._meta.get_field(name).from_db_value(left, None, connections[using])  # type: ignore[union-attr]
    fields = [field.attname for field in model._meta.concrete_fields if field.attname in values]
    message = model.from_db(using, fields, [values[name] for name in fields])
    for name in values.keys() - fields:
        setattr(message, name, values[name])
    return message
