"""The queue's tables."""

from __future__ import annotations

from django_dbqueue.models.archived_message import ArchivedMessage
from django_dbqueue.models.message import Message
from django_dbqueue.models.mutex import Mutex
from django_dbqueue.models.queue import Queue
from django_dbqueue.models.schedule import Schedule
from django_dbqueue.models.worker import Worker

__all__ = ["ArchivedMessage", "Message", "Mutex", "Queue", "Schedule", "Worker"]
