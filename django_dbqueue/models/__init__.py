"""The queue's tables."""

from __future__ import annotations

from django_dbqueue.models.archived_message import ArchivedMessage
from django_dbqueue.models.emitted_event import Event, Waiter
from django_dbqueue.models.event import Failure, MessageEvent
from django_dbqueue.models.exports import ExportBatch, HistoryReader
from django_dbqueue.models.flow import Edge, Flow, FlowPart
from django_dbqueue.models.group import Group, Line, Ticket
from django_dbqueue.models.history_age import HistoryAge
from django_dbqueue.models.message import Message
from django_dbqueue.models.mutex import Mutex
from django_dbqueue.models.once import Once
from django_dbqueue.models.operation import BulkOperation
from django_dbqueue.models.queue import Queue
from django_dbqueue.models.replica_beat import ReplicaBeat
from django_dbqueue.models.result import Result
from django_dbqueue.models.schedule import Schedule
from django_dbqueue.models.staged import PublishedJob, StagedMessage
from django_dbqueue.models.statistic import ALL_QUEUES, QueueMinute, QueueStatistic, QueueTotal, StatisticProgress
from django_dbqueue.models.step import Step
from django_dbqueue.models.stream import Stream, StreamClaim, StreamProgress
from django_dbqueue.models.worker_row import Worker

__all__ = [
    "ALL_QUEUES",
    "ArchivedMessage",
    "BulkOperation",
    "Edge",
    "Event",
    "ExportBatch",
    "Failure",
    "Flow",
    "FlowPart",
    "Group",
    "HistoryAge",
    "HistoryReader",
    "Line",
    "Message",
    "MessageEvent",
    "Mutex",
    "Once",
    "PublishedJob",
    "Queue",
    "QueueMinute",
    "QueueStatistic",
    "QueueTotal",
    "ReplicaBeat",
    "Result",
    "Schedule",
    "StagedMessage",
    "StatisticProgress",
    "Step",
    "Stream",
    "StreamClaim",
    "StreamProgress",
    "Ticket",
    "Waiter",
    "Worker",
]
