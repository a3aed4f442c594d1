"""Names of a package whose modules are imported when a name is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def names_on_first_use(
    package: str, names_by_module: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the package's ``__getattr__``, ``__dir__`` and ``__all__``. Modules are named relative to the package."""
    homes = {name: module for module, names in names_by_module.items() for name in names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, listed, [*homes]
