"""What matches a bulk operation, a page at a time: ranges of the claim index, and the events of a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django_dbqueue.databases.depths import Depths, Place
from django_dbqueue.databases.failing import Failing
from django_dbqueue.databases.scanning import Scanning
from django_dbqueue.databases.streaming import PARKED
from django_dbqueue.databases.words import Statement
from django_dbqueue.statuses import NEW

_SINCE: Final = {
    "ready": "available_at <= %s",
    "delayed": None,
    "running": "claimed_at <= %s",
    "stuck": "available_at <= %s",
    "dead": "finished_at <= %s",
    "done": "finished_at <= %s",
}
"""Which column tells since when a message has been in its state; for a delayed one, none does."""
_BY_TIME: Final = ("ready", "stuck", "done")
"""States whose ranges end at messages that entered the state later than asked for."""
_AHEAD: Final = ("delayed", "running")
"""States whose range begins now."""


class Bulk(Failing, Scanning, Depths):
    """Statements that walk through what matches, and check that it still does."""

    def bulk_page(self, place: Place, at: str, mark: tuple[str, int] | None, limit: int) -> Statement:
        """Read the first rows of a place, or those after a row with the same ``available_at``.

        Rows that entered the state later than ``at`` are left out if the index can tell, and so is what streams hold.
        """
        if mark is None:
            return self._bulk_page(place, at, "", (), limit)
        if place.state == "dead":
            return self._bulk_page(place, at, " AND id > %s", mark[1:], limit)
        return self._bulk_page(place, at, " AND available_at = %s AND id > %s", mark, limit)

    def bulk_page_later(self, place: Place, at: str, moment: str, limit: int) -> Statement:
        """Continue after all rows with this ``available_at``."""
        return self._bulk_page(place, at, " AND available_at > %s", (moment,), limit)

    def _bulk_page(self, place: Place, at: str, behind: str, params: tuple[Any, ...], limit: int) -> Statement:
        where = self._range(place)
        if behind and place.state in _AHEAD:
            # SQLite bounds a range by the first condition that it meets; the fence excludes what is due by now
            where = Statement(f"queue = %s AND status = '{place.status}' AND priority = %s", where.params)
        if place.state in _BY_TIME:
            behind, params = f"{behind} AND available_at <= %s", (*params, at)
        if place.state == "running":
            behind = f"{behind} AND available_at < '{PARKED}'"
        return Statement(
            f"SELECT available_at, id FROM {self.message}{self.use_claim_index} WHERE {where.sql}{behind} "
            f"ORDER BY {self._order(place)} LIMIT %s",
            (*where.params, *params, limit),
        )

    def still(self, ids: Sequence[int], state: str, at: str) -> Statement:
        """Return the fence of a bulk operation: those of the rows that are in this state, and were at that moment."""
        such, since = self.standing([state]).sql, _SINCE[state]
        if state == "running":
            such = f"{such} AND available_at < '{PARKED}'"
        named = f"id IN ({self.holes(len(ids))}) AND {such}"
        if since is None:
            return Statement(named, tuple(ids))
        return Statement(f"{named} AND {since}", (*ids, at))

    def count_these(self, where: Statement) -> Statement:
        """Count the rows of a fence."""
        return Statement(f"SELECT COUNT(*) FROM {self.message}{self.use_primary_key} WHERE {where.sql}", where.params)

    def last_ids(self) -> Statement:
        """Read the highest message id and the highest event id; NULL where there is none."""
        return Statement(f"SELECT (SELECT MAX(id) FROM {self.message}), (SELECT MAX(id) FROM {self.event})", ())

    def events_of_failure(self, failure: int, after: int, last: int, limit: int) -> Statement:
        """Read the ids of a group's events after one, up to another, in order."""
        return Statement(
            f"SELECT id FROM {self.event}{self.use_event_failure} WHERE failure_id = %s AND id > %s AND id <= %s "
            "ORDER BY id LIMIT %s",
            (failure, after, last, limit),
        )

    def newest_events_of_failure(self, failure: int, before: int, limit: int) -> Statement:
        """Read the ids of a group's events before one, the newest first."""
        return Statement(
            f"SELECT id FROM {self.event}{self.use_event_failure} WHERE failure_id = %s AND id < %s "
            "ORDER BY failure_id DESC, id DESC LIMIT %s",
            (failure, before, limit),
        )

    def dead_of_events(self, events: Sequence[int]) -> Statement:
        """Read event and message for messages that are dead and have not failed again, or in another way, since."""
        return Statement(
            f"SELECT e.id, e.message_id FROM {self.event} AS e{self.use_primary_key} "
            f"JOIN {self.message} AS m{self.use_primary_key} ON m.id = e.message_id "
            f"WHERE e.id IN ({self.holes(len(events))}) AND m.status = '{NEW}' AND m.available_at IS NULL "
            f"AND (SELECT l.id FROM {self.event} AS l{self.use_event_message} WHERE l.message_id = e.message_id "
            "AND l.id > e.id AND l.failure_id IS NOT NULL LIMIT 1) IS NULL ORDER BY e.message_id",
            tuple(events),
        )

    def newest_of_failures(self, failures: Sequence[int], limit: int) -> Statement:
        """Read the newest events of each of these groups: group, event, message, moment."""
        each = (
            f"SELECT * FROM (SELECT failure_id, id, message_id, at FROM {self.event}{self.use_event_failure} "
            "WHERE failure_id = %s ORDER BY failure_id DESC, id DESC LIMIT %s) AS newest"
        )
        return Statement(
            " UNION ALL ".join([each] * len(failures)), tuple(value for one in failures for value in (one, limit))
        )

    def failures_by_last_event(self, queue: str | None, limit: int) -> Statement:
        """Read the most recent groups by first event, each with its newest event or NULL."""
        where, params = ("", ()) if queue is None else ("WHERE f.queue = %s ", (queue,))
        return Statement(
            f"SELECT f.id, (SELECT e.id FROM {self.event} AS e{self.use_event_failure} WHERE e.failure_id = f.id "
            "ORDER BY e.failure_id DESC, e.id DESC LIMIT 1) "  # MariaDB would read all of them for MAX(e.id)
            f"FROM {self.failure} AS f {where}ORDER BY f.id DESC LIMIT %s",
            (*params, limit),
        )

    def failures_of_newest_events(self, limit: int) -> Statement:
        """Read the groups of the newest events overall, each with its newest event among them."""
        return Statement(
            "SELECT newest.failure_id, MAX(newest.id) FROM "
            f"(SELECT id, failure_id FROM {self.event} ORDER BY id DESC LIMIT %s) AS newest "
            "WHERE newest.failure_id IS NOT NULL GROUP BY newest.failure_id",
            (limit,),
        )
