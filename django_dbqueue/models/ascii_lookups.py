"""What an ASCII column can't hold equals none of its values.

MySQL and MariaDB refuse to compare other characters with it, and PostgreSQL refuses a NUL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import EmptyResultSet
from django.db.models import lookups

if TYPE_CHECKING:
    from django.db.models import Field


def _fits(value: object) -> bool:
    return not isinstance(value, str) or (value.isascii() and "\0" not in value)


class _WithinAscii:
    """A lookup by one value, which finds nothing by a value that doesn't fit."""

    rhs: Any

    def as_sql(self, *args: Any, **kwargs: Any) -> Any:
        if not _fits(self.rhs):
            raise EmptyResultSet
        return super().as_sql(*args, **kwargs)  # type: ignore[misc]


class _InWithinAscii(lookups.In):
    """``__in``, which leaves out what doesn't fit."""

    def get_prep_lookup(self) -> Any:
        prepared = super().get_prep_lookup()
        return [each for each in prepared if _fits(each)] if self.rhs_is_direct_value() else prepared


_BY_ONE_VALUE = (
    lookups.Exact,
    lookups.IExact,
    lookups.Contains,
    lookups.IContains,
    lookups.StartsWith,
    lookups.IStartsWith,
    lookups.EndsWith,
    lookups.IEndsWith,
)


def register(field: type[Field[Any, Any]]) -> None:
    """Give a field of ASCII text these lookups."""
    for each in _BY_ONE_VALUE:
        field.register_lookup(type(f"{each.__name__}WithinAscii", (_WithinAscii, each), {}))
    field.register_lookup(_InWithinAscii)
