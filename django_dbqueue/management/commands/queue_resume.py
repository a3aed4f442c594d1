"""``manage.py queue_resume``: open a paused queue again."""

from __future__ import annotations

from django_dbqueue.management.pause_command import PausingCommand
from django_dbqueue.models import Queue


class Command(PausingCommand):
    """Resume queues: the workers that serve them claim again."""

    help = "Open paused queues again."
    verb = "resume"
    pauses = False

    def switch(self, alias: str, name: str, *, by: str, reason: str) -> None:  # noqa: ARG002 - both take the same
        Queue.objects.db_manager(alias).resume(name)
