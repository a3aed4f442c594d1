"""The admin: look at messages, queues, schedules and workers, and do what an operator may do.

Nothing here writes SQL about messages: lists walk the claim index through the queryset's adjectives
(``bounded_lists``), and every change goes through the fenced verbs of ``operations/`` (``confirmation``,
``bulk_orders``).
"""

from __future__ import annotations

from django_dbqueue.admin.archived_messages import ArchivedMessageAdmin
from django_dbqueue.admin.failure_pages import FailureAdmin
from django_dbqueue.admin.flow_pages import FlowAdmin
from django_dbqueue.admin.group_pages import GroupAdmin
from django_dbqueue.admin.messages import MessageAdmin
from django_dbqueue.admin.operation_pages import BulkOperationAdmin
from django_dbqueue.admin.pipeline_pages import ExportBatchAdmin, HistoryReaderAdmin, StreamAdmin, StreamClaimAdmin
from django_dbqueue.admin.queues import QueueAdmin
from django_dbqueue.admin.schedule_pages import ScheduleAdmin
from django_dbqueue.admin.statistics_pages import QueueStatisticAdmin
from django_dbqueue.admin.worker_pages import WorkerAdmin

__all__ = [
    "ArchivedMessageAdmin",
    "BulkOperationAdmin",
    "ExportBatchAdmin",
    "FailureAdmin",
    "FlowAdmin",
    "GroupAdmin",
    "HistoryReaderAdmin",
    "MessageAdmin",
    "QueueAdmin",
    "QueueStatisticAdmin",
    "ScheduleAdmin",
    "StreamAdmin",
    "StreamClaimAdmin",
    "WorkerAdmin",
]
