"""``manage.py queue_requeue``: reset dead, stuck or running messages to new."""

from __future__ import annotations

from django.utils.translation import ngettext_lazy

from django_dbqueue.management.sweep_command import SweepCommand


class Command(SweepCommand):
    """Requeue messages: due at once, their counts at zero, their keys taken back; a holder loses its claim."""

    help = "Requeue dead, stuck or running messages as if they were new, by id or all of a queue."
    verb = "requeue"
    question = ngettext_lazy(
        "Requeue %(count)s message%(where)s?",
        "Requeue %(count)s messages%(where)s?",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s message requeued.",
        "%(count)s messages requeued.",
        "number",
    )
