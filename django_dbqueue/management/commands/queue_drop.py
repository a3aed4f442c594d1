"""``manage.py queue_drop``: mark messages done without processing them, with a reason."""

from __future__ import annotations

from django.utils.translation import ngettext_lazy

from django_dbqueue.management.sweep_command import SweepCommand


class Command(SweepCommand):
    """Drop messages: marked done, by whom and why; a holder loses its claim. It can't be undone."""

    help = "Mark messages as done without processing them, by id or all of a queue. This can't be undone."
    verb = "drop"
    question = ngettext_lazy(
        "Drop %(count)s message%(where)s? This can't be undone.",
        "Drop %(count)s messages%(where)s? This can't be undone.",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s message dropped.",
        "%(count)s messages dropped.",
        "number",
    )
