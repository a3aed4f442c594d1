"""The dialect: the statements of the queue by subject; a database replaces only the subjects that it says differently.

Each subject is a small class. What a server calls things is in its ``Server``, which all its subjects share.
"""

from __future__ import annotations

from django_dbqueue.databases.archive_sql import ArchiveSQL
from django_dbqueue.databases.bulk_sql import BulkSQL
from django_dbqueue.databases.claims_sql import ClaimsSQL
from django_dbqueue.databases.depths_sql import DepthsSQL
from django_dbqueue.databases.enqueue_sql import EnqueueSQL
from django_dbqueue.databases.event_values_sql import EventValuesSQL
from django_dbqueue.databases.events_sql import EventsSQL
from django_dbqueue.databases.failures_sql import FailuresSQL
from django_dbqueue.databases.flows_sql import FlowsSQL
from django_dbqueue.databases.groups_sql import GroupsSQL
from django_dbqueue.databases.history_sql import HistorySQL
from django_dbqueue.databases.lanes_sql import LanesSQL
from django_dbqueue.databases.listing_sql import ListingSQL
from django_dbqueue.databases.lookout_sql import LookoutSQL
from django_dbqueue.databases.messages_sql import MessagesSQL
from django_dbqueue.databases.once_sql import OnceSQL
from django_dbqueue.databases.partitions_sql import PartitionsSQL
from django_dbqueue.databases.queues_sql import QueuesSQL
from django_dbqueue.databases.rates_sql import RatesSQL
from django_dbqueue.databases.replicas_sql import ReplicasSQL
from django_dbqueue.databases.results_sql import ResultsSQL
from django_dbqueue.databases.scan_sql import ScanSQL
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.sessions_sql import SessionsSQL
from django_dbqueue.databases.staging_sql import StagingSQL
from django_dbqueue.databases.statistics_sql import StatisticsSQL
from django_dbqueue.databases.steps_sql import StepsSQL
from django_dbqueue.databases.stream_claims_sql import StreamClaimsSQL
from django_dbqueue.databases.stream_messages_sql import StreamMessagesSQL
from django_dbqueue.databases.stream_progress_sql import StreamProgressSQL
from django_dbqueue.databases.streams_sql import StreamsSQL
from django_dbqueue.databases.watch_sql import WatchSQL
from django_dbqueue.databases.workers_sql import WorkersSQL


class Dialect:
    """A builder of every statement of the queue; it knows no connection and keeps no state."""

    def __init__(
        self,
        sql: Server,
        *,
        enqueue: type[EnqueueSQL] = EnqueueSQL,
        events: type[EventsSQL] = EventsSQL,
        flows: type[FlowsSQL] = FlowsSQL,
        lanes: type[LanesSQL] = LanesSQL,
        messages: type[MessagesSQL] = MessagesSQL,
        once: type[OnceSQL] = OnceSQL,
        queues: type[QueuesSQL] = QueuesSQL,
        rates: type[RatesSQL] = RatesSQL,
        results: type[ResultsSQL] = ResultsSQL,
        staging: type[StagingSQL] = StagingSQL,
        steps: type[StepsSQL] = StepsSQL,
    ) -> None:
        self.sql = sql
        # the life of messages
        self.enqueue = enqueue(sql)
        self.claims = ClaimsSQL(sql)
        self.messages = messages(sql)
        self.lanes = lanes(sql)
        self.rates = rates(sql)
        self.events = events(sql)
        self.failures = FailuresSQL(sql)
        self.results = results(sql)
        self.once = once(sql)
        self.steps = steps(sql)
        self.flows = flows(sql)
        self.event_values = EventValuesSQL(sql)
        self.archive = ArchiveSQL(sql)
        self.bulk = BulkSQL(sql)
        # who works
        self.lookout = LookoutSQL(sql)
        self.workers = WorkersSQL(sql)
        # what people see
        self.queues = queues(sql)
        self.depths = DepthsSQL(sql)
        self.groups = GroupsSQL(sql)
        self.listing = ListingSQL(sql)
        self.statistics = StatisticsSQL(sql)
        self.watch = WatchSQL(sql)
        # the pipeline
        self.staging = staging(sql)
        self.scan = ScanSQL(sql)
        self.history = HistorySQL(sql)
        self.streams = StreamsSQL(sql)
        self.stream_claims = StreamClaimsSQL(sql)
        self.stream_messages = StreamMessagesSQL(sql)
        self.stream_progress = StreamProgressSQL(sql)
        self.replicas = ReplicasSQL(sql)


class ServerDialect(Dialect):
    """A dialect of a server, which has sessions and partitions: all but SQLite's."""

    def __init__(
        self,
        sql: Server,
        *,
        sessions: type[SessionsSQL],
        partitions: type[PartitionsSQL],
        enqueue: type[EnqueueSQL] = EnqueueSQL,
        events: type[EventsSQL] = EventsSQL,
        flows: type[FlowsSQL] = FlowsSQL,
        lanes: type[LanesSQL] = LanesSQL,
        messages: type[MessagesSQL] = MessagesSQL,
        once: type[OnceSQL] = OnceSQL,
        queues: type[QueuesSQL] = QueuesSQL,
        rates: type[RatesSQL] = RatesSQL,
        results: type[ResultsSQL] = ResultsSQL,
        staging: type[StagingSQL] = StagingSQL,
        steps: type[StepsSQL] = StepsSQL,
    ) -> None:
        super().__init__(
            sql,
            enqueue=enqueue,
            events=events,
            flows=flows,
            lanes=lanes,
            messages=messages,
            once=once,
            queues=queues,
            rates=rates,
            results=results,
            staging=staging,
            steps=steps,
        )
        self.sessions = sessions(sql)
        self.partitions = partitions(sql)
