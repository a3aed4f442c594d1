"""The options of groups: what each must be, and which of them don't go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.core import checks

from django_dbqueue import conf
from django_dbqueue.checks.rules import Rule, one_of, whole
from django_dbqueue.envelope import WHOLE_QUEUE
from django_dbqueue.lanes.rates import WrongRate, interval_of
from django_dbqueue.lanes.tickets import WIDEST


def _group(value: object) -> str | None:
    good = value is None or (isinstance(value, str) and value == WHOLE_QUEUE)
    return None if good else f"{WHOLE_QUEUE!r}, which makes all messages of the queue one group, or None"


def _rate(value: object) -> str | None:
    try:
        _ = None if value is None else interval_of(value)
    except WrongRate as error:
        return f"{error}, or None"
    return None


def _burst(value: object) -> str | None:
    wanted = whole(1, WIDEST)(value)
    return None if value is None or wanted is None else f"{wanted}, or None"


GROUP_RULES: Final[dict[str, Rule]] = {
    "group": _group,
    "group_limit": whole(1, WIDEST),
    "group_batch": whole(1, conf.MOST_IN_A_ROW),
    "group_rate": _rate,
    "group_burst": _burst,
    "on_dead": one_of(conf.NEXT, conf.HOLD),
}


def group_checks(options: Mapping[str, object], merged: Mapping[str, Any], place: str) -> Iterator[checks.CheckMessage]:
    """Check which of the options go together; ``merged`` has those that are inherited too."""
    names = ("group_limit", "group_burst")
    if not options.keys() & set(names) or any(GROUP_RULES[name](merged[name]) for name in names):
        return  # an inherited value is wrong, and reported where it is set
    limit, burst = merged["group_limit"], merged["group_burst"]
    if burst is not None and burst <= limit:
        yield checks.Warning(
            f"{place}: group_burst is {burst}, but {limit} messages of a group may run at once anyway (group_limit), "
            "so it changes nothing.",
            hint="Make group_burst larger than group_limit, or leave it out.",
            id="dbqueue.W004",
        )
