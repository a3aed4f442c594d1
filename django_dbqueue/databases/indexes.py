"""The indexes that statements name to servers that would otherwise choose another one, or none."""

from __future__ import annotations

from enum import StrEnum


class Index(StrEnum):
    """An index, by its name on the server. What is found by it waits for nobody's locks on other rows."""

    PRIMARY = "PRIMARY"
    IDS = "ids"
    """The primary key of messages: SQLite, with statistics, would read all that are parked for some of them."""
    CLAIM = "dbqueue_claim"
    LIVE_KEY = "dbqueue_live_key"
    EVENT_FAILURE = "dbqueue_event_failure"
    EVENT_MESSAGE = "dbqueue_event_message"
    EVENT_AGE = "dbqueue_event_at"
    HOUR = "dbqueue_statistic_hour"
    EDGE_UPSTREAM = "dbqueue_edge_upstream"
    WAITER_MESSAGE = "dbqueue_waiter_message"
