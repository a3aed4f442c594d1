from __future__ import annotations

from django.conf import settings

# What one kind of server alone can do is no test of the others: left out there, not skipped.
_OF = {
    "test_age_walk_in_partitions.py": {"mariadb", "mysql", "postgres"},
    "test_partitioning.py": {"mariadb", "mysql", "postgres"},
    "test_partitions_kept.py": {"mariadb", "mysql", "postgres"},
}
collect_ignore = [name for name, databases in _OF.items() if settings.TEST_DATABASE not in databases]
