"""The modules ``queue_consumers``, or of another name, of the installed apps: imported, and why one can't be."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from sysconfig import get_path
from traceback import extract_tb
from typing import Final

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule

MODULE: Final = "queue_consumers"
_LIBRARIES: Final = ("<frozen", f"{Path(__file__).parents[1]}/", f"{get_path('stdlib')}/")


class ImportExits(ImproperlyConfigured):
    """A module ended the process while it was imported."""


def discover() -> None:
    """Import the module of every app that has one; raise what an import raises, and ImportExits for an exit."""
    for app in apps.get_app_configs():
        _import(app, MODULE)


def unimportable(module: str = MODULE) -> dict[str, Exception]:
    """Import what can be, and return why the others can't be, by module."""
    found: dict[str, Exception] = {}
    for app in apps.get_app_configs():
        try:
            _import(app, module)
        except Exception as error:
            found[f"{app.name}.{module}"] = error
    return found


def sentence(module: str, error: Exception) -> str:
    """Return what an import raised and where: the innermost place that isn't of a library."""
    if isinstance(error, ImportExits):
        return str(error)
    if isinstance(error, SyntaxError):  # which has its place in its text
        return f"{module} can't be imported: {type(error).__name__}: {error}"
    own = [
        each
        for each in extract_tb(error.__traceback__)
        if not each.filename.startswith(_LIBRARIES) and "site-packages" not in each.filename
    ]
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{module} can't be imported: {type(error).__name__}: {error}{place}"


def _import(app: AppConfig, module: str) -> None:
    name = f"{app.name}.{module}"
    try:
        import_module(name)
    except SystemExit as error:
        raise ImportExits(
            f"The module {name} ended the process while it was imported (SystemExit: {error.code}). Whoever imports "
            "it has other work: raise an exception that says what is wrong, or call sys.exit() in a command."
        ) from error
    except Exception:
        if app.module is not None and module_has_submodule(app.module, module):
            raise
