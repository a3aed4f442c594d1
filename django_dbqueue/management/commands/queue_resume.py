"""``manage.py queue_resume``: open a paused queue again."""

from __future__ import annotations

from django_dbqueue.management.pause_command import PausingCommand
from django_dbqueue.models import Group, Queue
from django_dbqueue.sessions.django_session import DjangoSession


class Command(PausingCommand):
    """Resume queues, or one group: the workers that serve them claim again."""

    help = "Open paused queues again."
    verb = "resume"
    pauses = False

    def switch(self, session: DjangoSession, name: str, *, by: str, reason: str) -> None:  # noqa: ARG002 - both take the same
        Queue.objects.db_manager(session.using).resume(name)

    def switch_group(self, session: DjangoSession, group: Group, *, by: str, reason: str) -> None:  # noqa: ARG002 - both take the same
        Group.objects.db_manager(session.using).resume(group.queue, group.name)
