"""Functions with a ``cron``, consumers and tasks, and the schedule of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from django_dbqueue import conf
from django_dbqueue.exceptions import InvalidSchedule
from django_dbqueue.schedules import declarations


class Scheduled(NamedTuple):
    """A function of the project that has a ``cron``."""

    name: str
    """That of its schedule."""
    holder: str
    read: Callable[[], declarations.Plan]
    """Returns its schedule; InvalidSchedule or SchedulesNotInstalled if no worker can start with it."""

    def plan(self, among: Iterable[Scheduled]) -> declarations.Plan:
        """Return its schedule; InvalidSchedule too if another one ``among`` these, or the settings, has its name."""
        others = [each.holder for each in among if each.name == self.name and each.holder != self.holder]
        if self.name in conf.get("SCHEDULES"):
            others.append(f"one of {conf.NAME}['SCHEDULES']")
        if others:
            raise InvalidSchedule(
                f"Two schedules are named {self.name!r}: that of {self.holder}, which is named after its queue "
                f"or function, and {others[0]}. Give the latter another name."
            )
        return self.read()
