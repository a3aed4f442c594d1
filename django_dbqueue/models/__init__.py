"""The queue's tables."""

from __future__ import annotations

from django_dbqueue.models.archived_message import ArchivedMessage
from django_dbqueue.models.event import Failure, MessageEvent
from django_dbqueue.models.exports import ExportBatch, HistoryReader
from django_dbqueue.models.message import Message
from django_dbqueue.models.mutex import Mutex
from django_dbqueue.models.operation import BulkOperation
from django_dbqueue.models.queue import Queue
from django_dbqueue.models.result import Result
from django_dbqueue.models.schedule import Schedule
from django_dbqueue.models.staged import PublishedJob, StagedMessage
from django_dbqueue.models.statistic import ALL_QUEUES, QueueMinute, QueueStatistic, StatisticProgress
from django_dbqueue.models.stream import Stream, StreamClaim
from django_dbqueue.models.worker import Worker

__all__ = [
    "ALL_QUEUES",
    "ArchivedMessage",
    "BulkOperation",
    "ExportBatch",
    "Failure",
    "HistoryReader",
    "Message",
    "MessageEvent",
    "Mutex",
    "PublishedJob",
    "Queue",
    "QueueMinute",
    "QueueStatistic",
    "Result",
    "Schedule",
    "StagedMessage",
    "StatisticProgress",
    "Stream",
    "StreamClaim",
    "Worker",
]
