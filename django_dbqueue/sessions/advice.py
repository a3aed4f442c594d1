"""What to do about a database that can't be reached, opened or written, or that lacks the queue's tables."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext as _

from django_dbqueue.databases import means, terms_of


def advice(connection: BaseDatabaseWrapper, error: BaseException) -> str:
    """Return what to do about a database's error."""
    using = connection.alias
    if is_unmigrated(error):
        return _("Run: manage.py migrate --database %(alias)s") % {"alias": using}
    if not terms_of(connection.vendor).is_file:
        return _(
            "Is the server running, and are HOST, PORT, NAME, USER and PASSWORD of DATABASES[%(alias)r] right?"
        ) % {"alias": using}
    path = _file(str(connection.settings_dict["NAME"]))
    words = {"alias": using, "path": str(path), "directory": str(path.parent)}
    if means(error, "waited"):
        return _("Another process holds the lock on the file %(path)s: wait for it, or end it.") % words
    if not path.parent.is_dir():
        return (
            _("There is no directory %(directory)s for the file %(path)s: create it, or correct DATABASES[%(alias)r].")
            % words
        )
    return (
        _("The account that runs this must be able to read and write %(path)s and its directory %(directory)s.") % words
    )


def is_unmigrated(error: BaseException) -> bool:
    """Return whether an error says that one of the queue's tables is missing."""
    return means(error, "no table") and "django_dbqueue" in str(error)


def explain(using: str, error: BaseException) -> None:
    """Add to an error that reaches the project's code what to do; its class and text stay those of the driver."""
    if is_unmigrated(error):
        error.add_note(
            _("The database %(alias)r doesn't have the queue's tables. Run: manage.py migrate --database %(alias)s")
            % {"alias": using}
        )


def _file(name: str) -> Path:
    """Return the path of a database's file, which may be named by a URI."""
    return Path(urlsplit(name).path if name.startswith("file:") else name).absolute()
