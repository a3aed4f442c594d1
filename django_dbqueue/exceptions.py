"""Every error of this package, for users to catch by name."""

from __future__ import annotations


class _Kept(BaseException):
    """Is the same after pickle and copy, which otherwise call ``__init__`` with the text alone."""

    def __reduce__(self) -> tuple[object, ...]:
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[_Kept], args: tuple[object, ...]) -> _Kept:
    error = kind.__new__(kind, *args)
    super(_Kept, error).__init__(*args)  # ImportError keeps its text by itself
    return error


class DBQueueError(_Kept, Exception):
    """Base of all errors of django_dbqueue."""


class InvalidMessage(DBQueueError, ValueError):
    """The message can't be stored as given; nothing was written. The text says what, why, and what to do."""


class UndecodableMessage(DBQueueError, ValueError):
    """A stored body or its headers can't be decoded (someone wrote the row by SQL)."""


class DuplicateKey(DBQueueError):
    """A live message with this queue and key exists already."""

    def __init__(self, queue: str, key: str | None, *, message_id: int | None = None, in_flow: bool = False) -> None:
        self.queue = queue
        self.key = key
        self.message_id = message_id
        about = f"message {message_id}: " if message_id is not None else ""
        other = (
            "give the message of the flow another key" if in_flow else "enqueue with on_conflict='ignore' or 'update'"
        )
        super().__init__(
            f"{about}queue {queue!r} already has a live message with key {key!r}; wait until it is done or dead, or "
            f"{other}."
        )


class LeaseLost(DBQueueError):
    """The caller no longer holds the claim; nothing was changed.

    The message was rescued, updated, requeued or already settled. Its next delivery belongs to another claim, so the
    only right thing to do is to stop working on it.
    """

    def __init__(self, message_id: int | None, verb: str, *, cancelled: str = "") -> None:
        self.message_id = message_id
        why = cancelled or ("it was already settled, its lease expired, or it was updated or requeued in the meantime")
        super().__init__(f"{verb} of message {message_id} changed nothing: this claim no longer holds it ({why}).")


class TransactionNotAllowed(DBQueueError, RuntimeError):
    """The operation is a transaction of its own and was called inside atomic()."""


class TransactionBroken(DBQueueError):
    """The transaction of a block's rows ended before the ack, or the step; what it had not committed is rolled back."""

    def __init__(self, message_id: int | None, *, step: str | None = None) -> None:
        self.message_id = message_id
        what = f"message {message_id} was not acked"
        if step is not None:
            what = f"step {step!r} of message {message_id} was not remembered"
        super().__init__(
            f"{what}: the transaction that began with its block can't be committed. The "
            "block swallowed a database error that rolled it back (let the error propagate, or put that statement "
            "into an atomic() of its own), ended it by itself (COMMIT, set_rollback(True), or DDL, which commits on "
            "MySQL), or lost its session."
        )


class InvalidStep(DBQueueError, ValueError):
    """A step, a sleep or a wait can't be done as the handler asks for it. The text says what, why, and what to do.

    Another attempt would ask for the same, so a worker sends the message to the dead letters.
    """


class EventTimedOut(DBQueueError, TimeoutError):
    """A wait's timeout came before its event. It is remembered: the next attempt gets the same answer."""

    def __init__(self, message_id: int | None, event: str) -> None:
        self.message_id = message_id
        self.event = event
        super().__init__(f"message {message_id} has waited for event {event!r} as long as its timeout allows.")


class Suspended(_Kept):
    """Ends a handler whose message sleeps, or waits for an event; the next delivery continues there.

    It is not an Exception, so ``except Exception`` in a handler doesn't stop it. The message is no longer held.
    """

    def __init__(self, message_id: int | None, why: str) -> None:
        self.message_id = message_id
        super().__init__(f"message {message_id} {why}")


class MessageCancelled(_Kept):
    """Is raised in a thread whose handler's message was cancelled, between two of its lines; who and why: the log.

    It is not an Exception, so ``except Exception`` in a handler doesn't stop it. What is dead was dead before it is
    raised: clean up, and let it pass. It also names, in a task's result, why the task has failed.
    """

    def __init__(self, text: str = "the message of this handler was cancelled") -> None:
        super().__init__(text)


class NotCancelled(DBQueueError):
    """The message can't be cancelled: it has ended, or is not there. The text says which; nothing was changed."""

    def __init__(self, message_id: int, text: str) -> None:
        self.message_id = message_id
        super().__init__(text)


class InvalidFlow(DBQueueError, ValueError):
    """Something can't be done in a flow as requested. The text says what, why, and what to do."""


class UnsupportedDatabase(DBQueueError):
    """The database can't keep the queue's promises; the text says what it lacks."""


class PartitioningRefused(DBQueueError):
    """The history can't be partitioned, or be one table again, now. The text says why, and what to do."""


class InvalidSchedule(DBQueueError, ValueError):
    """A schedule is invalid as declared. The text says what, why, and what to do."""


class SchedulesNotInstalled(DBQueueError, ImportError):
    """A schedule is declared, but the library that reads cron expressions is not installed."""

    def __init__(self) -> None:
        super().__init__("Schedules need the package cronsim: pip install 'django-dbqueue[schedules]'.")


class DatabaseAway(DBQueueError):
    """The database can't be reached from Spark now: down, restarting, cut off, or without a free session."""

    given_up: bool = False
    """Whether it was waited for as long as was asked."""
    is_full: bool = False
    """Whether it answered, but the server or the account has no session left."""


class ReplicaBehind(DatabaseAway):
    """The replica that Spark is to read from hasn't yet got what it must have."""


class InvalidPipeline(DBQueueError, ValueError):
    """Something on Spark can't be done as requested. The text says what, why, and what to do."""


class SparkNotInstalled(DBQueueError, ImportError):
    """PySpark, or the Java that it needs, is missing. The text says which, and how to get it."""


class StreamBusy(DBQueueError, RuntimeError):
    """Another query is running under this stream's name. The text says whose it is, and what to do."""


class ExportBusy(DBQueueError, RuntimeError):
    """Another export is working on this archive. The text says whose it is."""


class ExportStopped(DBQueueError, RuntimeError):
    """An export stopped early, and purged nothing of the batch that the text is about."""


class LakeDamaged(DBQueueError, RuntimeError):
    """Files of a lake don't match its manifests. The text says which, and what to do."""


class StreamLost(DBQueueError, RuntimeError):
    """Another query has taken this stream over; nothing was changed. The text says what to do."""


class HistoryGone(DBQueueError, RuntimeError):
    """Rows that a reader of the history still had to read were purged. The text says which, and what to do."""


class WorkerLost(DBQueueError):
    """Names, in a task's result, an attempt that its worker did not end: it was killed, stopped or silent too long."""


class TaskExpired(DBQueueError):
    """Names, in a task's result, why it was never run: a worker claimed it after its ``expires``."""


class MessageDropped(DBQueueError):
    """Names, in a task's result, that its message was dropped. The text is the reason that was given."""


class ResultForgotten(DBQueueError, ValueError):
    """What a task returned is kept no more: its ``keep_results`` is over. The text says of which task."""


class MessageChanged(DBQueueError):
    """A message is not any more as the caller saw it, or somebody has taken it; nothing was changed."""
