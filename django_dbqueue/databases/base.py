"""The dialect: the statements of the queue by subject; a database replaces only the subjects that it says differently.

Each subject is a small class. What a server calls things is in its ``Vocabulary``, which all its subjects share.
"""

from __future__ import annotations

from django_dbqueue.databases.archiving import Archive
from django_dbqueue.databases.bulk import Bulk
from django_dbqueue.databases.claiming import Claims
from django_dbqueue.databases.depths import Depths
from django_dbqueue.databases.enqueueing import Enqueue
from django_dbqueue.databases.failing import Failures
from django_dbqueue.databases.history import History
from django_dbqueue.databases.listing import Listing
from django_dbqueue.databases.liveness import Workers
from django_dbqueue.databases.looking import Lookout
from django_dbqueue.databases.moving import Messages
from django_dbqueue.databases.recording import Events
from django_dbqueue.databases.scanning import Scan
from django_dbqueue.databases.sessions import Sessions
from django_dbqueue.databases.skipping import Queues
from django_dbqueue.databases.staging import Staging
from django_dbqueue.databases.statistics import Statistics
from django_dbqueue.databases.stream_claims import StreamClaims
from django_dbqueue.databases.stream_messages import StreamMessages
from django_dbqueue.databases.streaming import Streams
from django_dbqueue.databases.vocabulary import Vocabulary
from django_dbqueue.databases.watching import Watch


class Dialect:
    """A builder of every statement of the queue; it knows no connection and keeps no state."""

    def __init__(
        self,
        sql: Vocabulary,
        *,
        enqueue: type[Enqueue] = Enqueue,
        events: type[Events] = Events,
        messages: type[Messages] = Messages,
        queues: type[Queues] = Queues,
        staging: type[Staging] = Staging,
    ) -> None:
        self.sql = sql
        # the life of messages
        self.enqueue = enqueue(sql)
        self.claims = Claims(sql)
        self.messages = messages(sql)
        self.events = events(sql)
        self.failures = Failures(sql)
        self.archive = Archive(sql)
        self.bulk = Bulk(sql)
        # who works
        self.lookout = Lookout(sql)
        self.workers = Workers(sql)
        # what people see
        self.queues = queues(sql)
        self.depths = Depths(sql)
        self.listing = Listing(sql)
        self.statistics = Statistics(sql)
        self.watch = Watch(sql)
        # the pipeline
        self.staging = staging(sql)
        self.scan = Scan(sql)
        self.history = History(sql)
        self.streams = Streams(sql)
        self.stream_claims = StreamClaims(sql)
        self.stream_messages = StreamMessages(sql)


class ServerDialect(Dialect):
    """A dialect of a server, which has sessions: all but SQLite's."""

    def __init__(
        self,
        sql: Vocabulary,
        *,
        sessions: type[Sessions],
        enqueue: type[Enqueue] = Enqueue,
        events: type[Events] = Events,
        messages: type[Messages] = Messages,
        queues: type[Queues] = Queues,
        staging: type[Staging] = Staging,
    ) -> None:
        super().__init__(sql, enqueue=enqueue, events=events, messages=messages, queues=queues, staging=staging)
        self.sessions = sessions(sql)
