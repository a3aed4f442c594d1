"""Roll-ups per queue and hour: what was computed last, and its replacement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django_dbqueue.databases.words import Statement, Words

STATISTIC_COLUMNS: Final = (
    "queue",
    "hour",
    "messages",
    "failures",
    "retries",
    "dead",
    "wait_p50",
    "wait_p95",
    "wait_p99",
    "run_p50",
    "run_p95",
    "run_p99",
)


class Statistics(Words):
    """The hours from one on are replaced as a whole, so that a cell that has no message any more goes away."""

    statistic = "django_dbqueue_queuestatistic"
    export_batch = "django_dbqueue_exportbatch"

    def last_hour(self) -> Statement:
        """Read the last hour that has a roll-up; NULL where none has."""
        return Statement(f"SELECT MAX(hour) FROM {self.statistic}", ())

    def drop_hours(self, since: Any) -> Statement:
        """Delete the roll-ups of this hour and of all later ones; of all hours for None."""
        if since is None:
            return Statement(f"DELETE FROM {self.statistic}", ())
        return Statement(f"DELETE FROM {self.statistic} WHERE hour >= %s", (since,))

    def add_hours(self, rows: Sequence[tuple[Any, ...]]) -> Statement:
        """Insert roll-ups, rows of STATISTIC_COLUMNS."""
        row = f"({self.holes(len(STATISTIC_COLUMNS))}, {self.now})"
        return Statement(
            f"INSERT INTO {self.statistic} ({self.columns(STATISTIC_COLUMNS)}, computed_at) "
            f"VALUES {', '.join([row] * len(rows))}",
            tuple(value for each in rows for value in each),
        )

    def lakes_purged_into(self, since: Any) -> Statement:
        """Read the lakes that hold rows which left the archive, of batches planned since; of all for None."""
        # What a batch holds was archived, and so had finished, before the batch was planned
        later, params = ("", ()) if since is None else (" AND planned_at >= %s", (since,))
        return Statement(
            f"SELECT DISTINCT lake FROM {self.export_batch} WHERE purged_to >= first_id{later} ORDER BY lake", params
        )
