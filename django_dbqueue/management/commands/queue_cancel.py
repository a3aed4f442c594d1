"""``manage.py queue_cancel``: end messages as dead, with a reason; what runs is interrupted."""

from __future__ import annotations

from django.utils.translation import ngettext_lazy

from django_dbqueue.management.sweep_command import SweepCommand


class Command(SweepCommand):
    """Cancel messages: dead, by whom and why; a handler that runs is interrupted. They can be requeued."""

    help = "Cancel messages that have not ended, by id or all of a queue: they are dead, and what runs is interrupted."
    verb = "cancel"
    question = ngettext_lazy(
        "Cancel %(count)s message%(where)s? What runs is interrupted.",
        "Cancel %(count)s messages%(where)s? What runs is interrupted.",
        "number",
    )
    done = ngettext_lazy(
        "%(count)s message cancelled.",
        "%(count)s messages cancelled.",
        "number",
    )
