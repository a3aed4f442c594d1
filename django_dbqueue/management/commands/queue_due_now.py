"""``manage.py queue_due_now``: make delayed messages due at once."""

from __future__ import annotations

from django.utils.translation import ngettext_lazy

from django_dbqueue.management.sweep_command import SweepCommand


class Command(SweepCommand):
    """Make messages due now that were delayed, or wait for a retry; their counts stay, and groups keep their order."""

    help = "Make delayed messages due now, by id or all of a queue; also those that wait for a retry."
    verb = "due-now"
    question = ngettext_lazy(
        "Make %(count)s message%(where)s due now?",
        "Make %(count)s messages%(where)s due now?",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s message is due now.",
        "%(count)s messages are due now.",
        "number",
    )
