"""``manage.py queue_cancel``: end messages as dead, with a reason; what runs is interrupted."""

from __future__ import annotations

from django.utils.translation import ngettext

from django_dbqueue.management.sweep_command import SweepCommand
from django_dbqueue.states.counts import grouped


class Command(SweepCommand):
    """Cancel messages: dead, by whom and why; a handler that runs is interrupted. They can be requeued."""

    help = "Cancel messages that have not ended, by id or all of a queue: they are dead, and what runs is interrupted."
    verb = "cancel"

    def question(self, number: int, gaps: dict[str, str]) -> str:
        text = ngettext(
            "Cancel %(count)s message%(where)s? What runs is interrupted.",
            "Cancel %(count)s messages%(where)s? What runs is interrupted.",
            number,
        )
        return text % gaps

    def done(self, count: int) -> str:
        return ngettext("%(count)s message cancelled.", "%(count)s messages cancelled.", count) % {
            "count": grouped(count)
        }
