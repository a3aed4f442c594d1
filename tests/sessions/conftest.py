from __future__ import annotations

from django.conf import settings

# What one kind of server alone can do is no test of the others: left out there, not skipped.
_OF = {
    "test_server_without_autocommit.py": {"mariadb", "mysql"},
    "test_snapshots.py": {"mariadb", "mysql"},
    "test_sql_modes.py": {"mariadb"},
}
collect_ignore = [name for name, databases in _OF.items() if settings.TEST_DATABASE not in databases]
