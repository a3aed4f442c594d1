"""A run of a consuming stream, in the one process that claims and acks, and its heartbeat.

It survives a lost session: it reconnects, takes the stream's lock again, and repeats the work in progress, none of
which changes anything a second time. It doesn't survive another query that has taken the stream over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from django_dbqueue.exceptions import StreamLost
from django_dbqueue.spark.admission import open_lasting
from django_dbqueue.spark.connection import Connection, is_away
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.outage import Patience, tried_on
from django_dbqueue.spark.trigger_limits import SmallBatch, TriggerLimits
from django_dbqueue.streams import ownership, stream_delivery
from django_dbqueue.streams.backlog import MOST_COUNTED, Backlog, count_backlog, count_ready
from django_dbqueue.streams.id_ranges import Ranges
from django_dbqueue.streams.ownership import StreamSpec
from django_dbqueue.streams.stream_claimer import StreamClaimer

Result = TypeVar("Result")

BEATS_A_LEASE: Final = 3
RETRY_AFTER: Final = 0.5
"""Seconds after which a failed heartbeat is retried."""
SHORTEST_IDLE: Final = 0.01
LONGEST_IDLE: Final = 1.0
"""Maximum seconds after which an empty queue is checked again; the pause doubles from SHORTEST_IDLE up to this."""
COUNT_SHARE: Final = 20
"""Counts of what is ready or waits take at most one twentieth of a run's time."""

logger = logging.getLogger("django_dbqueue")


class StreamRun:
    """One run of a stream, from the first question to ``close``. Lives in one process, and is never pickled."""

    def __init__(
        self, credentials: Credentials, spec: StreamSpec, *, outage: float, limits: TriggerLimits | None = None
    ) -> None:
        self._credentials = credentials
        self._spec = spec
        self._outage = outage
        self._small = SmallBatch(limits or TriggerLimits(most=0))
        self._connection: Connection | None
        self._connection, self.id = tried_on(self._begun, seconds=outage)
        self._claimer = StreamClaimer(spec, self.id)
        self._heartbeat = StreamHeartbeat(credentials, spec, self.id)
        self._heartbeat.start()
        self._until: object = None
        self._idle = 0.0
        self._claim_at = 0.0
        self._acked = -1
        self._backlog = Backlog(0, 0, is_capped=False)
        self._is_backlog_old = True
        self._count_at = 0.0

    def _begun(self) -> tuple[Connection, int]:
        connection = open_lasting(self._credentials)
        try:
            return connection, ownership.begin(connection, self._spec)
        except BaseException:
            connection.discard()
            raise

    def stop_at_now(self) -> None:
        """Claim only what is due by now, however long that takes: the end of ``availableNow``."""
        self._until = self._do(lambda connection: connection.fetch(connection.server.clock())[0][0])

    def advance(self, start: int, limit: int) -> int:
        """Ack what Spark has committed, and return the next claim's number; ``start`` if nothing is due."""
        if start > self._acked:
            self.ack(start)
        is_idle = time.monotonic() < self._claim_at
        if is_idle:
            self._heartbeat.check()
            return start
        began = time.monotonic()
        self._is_backlog_old = True
        number = self._do(lambda connection: self._next(connection, start, limit))
        if number is not None:
            self._idle = self._claim_at = 0.0
            self._small.begin()
            return number
        if self._until is None:
            self._idle = min(LONGEST_IDLE, max(SHORTEST_IDLE, 2 * self._idle))
            ended = time.monotonic()
            pause = max(self._idle, COUNT_SHARE * (ended - began)) if self._small.least else self._idle
            self._claim_at = self._small.earlier(ended + pause)
        return start

    def _next(self, connection: Connection, start: int, limit: int) -> int | None:
        """Return the first unacked claim after ``start``, or else a new one if enough is due."""
        open_claim = self._claimer.next_open(connection, start)
        if open_claim is not None:
            return open_claim
        least = self._small.least if self._until is None else 0
        if least and count_ready(connection, self._spec.queue, least) < least:
            return None
        return self._claimer.claim(connection, limit, until=self._until)

    def backlog(self) -> Backlog:
        """Count what is not claimed; again after the next check, or later if that is slow."""
        began = time.monotonic()
        if self._is_backlog_old and began >= self._count_at:
            queue = self._spec.queue
            self._backlog = self._do(lambda connection: count_backlog(connection, queue, MOST_COUNTED))
            ended = time.monotonic()
            self._is_backlog_old, self._count_at = False, ended + COUNT_SHARE * (ended - began)
        return self._backlog

    def ack(self, upto: int) -> None:
        """Ack the claims up to this number."""
        self._do(lambda connection: self._claimer.ack(connection, upto))
        self._acked = upto

    def planned(self, above: int, upto: int) -> list[tuple[int, Ranges]]:
        """Return the claims of an interval of offsets, with their ids."""
        return self._do(
            lambda connection: stream_delivery.planned(connection, self._spec.name, self.id, above=above, upto=upto)
        )

    def close(self) -> None:
        """End the run and the session; what is claimed stays claimed for the next run."""
        self._heartbeat.stop()
        if self._connection is None:
            return
        try:
            ownership.end(self._connection, self._spec.name, self.id)
        except Exception as error:
            if not is_away(error):
                raise
        finally:
            self._drop()

    def _do(self, work: Callable[[Connection], Result]) -> Result:
        """Run ``work``, again on a new session if the old one ends meanwhile."""
        self._heartbeat.check()
        patience = Patience(self._outage)
        while True:
            try:
                return work(self._connected())
            except Exception as error:
                if is_away(error):
                    self._drop()
                patience.wait(error)

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = open_lasting(self._credentials)
            try:
                ownership.resume(connection, self._spec, self.id)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.discard()


class StreamHeartbeat:
    """A thread with a session of its own, which extends the leases of the run's claims at a third of their length."""

    def __init__(self, credentials: Credentials, spec: StreamSpec, run: int) -> None:
        self._credentials = credentials
        self._spec = spec
        self._run = run
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"dbqueue stream {spec.name}", daemon=True)
        self._lost: StreamLost | None = None

    def start(self) -> None:
        """Start beating."""
        self._thread.start()

    def stop(self) -> None:
        """Stop beating, and end the session."""
        self._ended.set()
        self._thread.join()

    def check(self) -> None:
        """Raise StreamLost if a beat has found that another query runs the stream."""
        if self._lost is not None:
            raise StreamLost(*self._lost.args)

    def _beat(self) -> None:
        connection: Connection | None = None
        every = self._spec.lease / BEATS_A_LEASE
        pause = every
        while not self._ended.wait(pause):
            try:
                connection = connection or open_lasting(self._credentials)
                ownership.beat(connection, self._spec, self._run)
                pause = every
            except StreamLost as error:
                self._lost = error
                break
            except Exception as error:
                logger.warning("stream %s: a heartbeat failed, retrying: %s", self._spec.name, error)
                if connection is not None:
                    connection.discard()
                connection, pause = None, min(every, RETRY_AFTER)
        if connection is not None:
            connection.discard()
