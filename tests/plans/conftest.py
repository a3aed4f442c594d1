from __future__ import annotations

from django.conf import settings

# SQLite has one lock, so that there every writer waits for the one before it.
collect_ignore = ["test_neighbours.py", "test_history_in_partitions.py"] if settings.TEST_DATABASE == "sqlite" else []
if settings.TEST_DATABASE not in {"mysql", "mariadb"}:
    collect_ignore += ["test_old_statistics.py", "test_status_order.py"]  # of InnoDB
if settings.TEST_DATABASE != "mysql":
    collect_ignore.append("test_row_count.py")  # MariaDB's rollback mends the count
if settings.TEST_DATABASE != "sqlite":
    collect_ignore.append("test_ids.py")  # other drivers keep no statements
    collect_ignore.append("test_one_known_queue.py")  # other servers keep their statistics up to date
