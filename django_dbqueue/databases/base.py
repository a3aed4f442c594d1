"""The statements of the queue, each built in one place; a dialect overrides only what its server says differently."""

from __future__ import annotations

from django_dbqueue.databases.archiving import Archiving
from django_dbqueue.databases.bulk import Bulk
from django_dbqueue.databases.claiming import Claiming
from django_dbqueue.databases.enqueueing import Enqueueing
from django_dbqueue.databases.failing import Failing
from django_dbqueue.databases.history import History
from django_dbqueue.databases.listing import Listing
from django_dbqueue.databases.looking import Looking
from django_dbqueue.databases.moving import Moving
from django_dbqueue.databases.recording import Recording
from django_dbqueue.databases.scanning import Scanning
from django_dbqueue.databases.sessions import Sessions
from django_dbqueue.databases.skipping import Skipping
from django_dbqueue.databases.staging import Staging
from django_dbqueue.databases.statistics import Statistics
from django_dbqueue.databases.watching import Watching


class Dialect(
    Claiming,
    Moving,
    Bulk,
    Failing,
    Recording,
    Enqueueing,
    Archiving,
    Staging,
    Scanning,
    Skipping,
    Listing,
    History,
    Looking,
    Statistics,
    Watching,
):
    """A builder of every statement about messages, workers and streams; it knows no connection and keeps no state."""


class ServerDialect(Dialect, Sessions):
    """What a server with sessions offers beyond that: every dialect but SQLite's."""
