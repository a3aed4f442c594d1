"""``manage.py queue_requeue``: reset dead, stuck or running messages to new."""

from __future__ import annotations

from django.utils.translation import ngettext

from django_dbqueue.management.sweep_command import SweepCommand
from django_dbqueue.states.counts import grouped


class Command(SweepCommand):
    """Requeue messages: due at once, their counts at zero, their keys taken back; a holder loses its claim."""

    help = "Requeue dead, stuck or running messages as if they were new, by id or all of a queue."
    verb = "requeue"

    def question(self, number: int, gaps: dict[str, str]) -> str:
        text = ngettext("Requeue %(count)s message%(where)s?", "Requeue %(count)s messages%(where)s?", number)
        return text % gaps

    def done(self, count: int) -> str:
        return ngettext("%(count)s message requeued.", "%(count)s messages requeued.", count) % {
            "count": grouped(count)
        }
