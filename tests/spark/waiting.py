"""Who waits for a session until another one ends."""

from __future__ import annotations

import logging

from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.lasting import Lasting
from tests.patience import patience


def assert_it_is_waited_for(credentials: Credentials, only: Connection) -> None:
    """The only session ends when it is logged that somebody waits for it."""

    class End(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            only.discard()

    log, end = logging.getLogger("django_dbqueue.spark"), End()
    log.addHandler(end)
    try:
        with Lasting(credentials, outage=patience(60)) as session:
            assert session.ask(Connection.clock)
    finally:
        log.removeHandler(end)
