"""SQLite has no stored routines, and the command says so."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("action", ["install", "uninstall", "print"])
def test_the_command_reports_that_sqlite_has_no_stored_routines(action: str) -> None:
    with pytest.raises(CommandError, match="SQLite has no stored routines"):
        call_command("queue_routines", action)
