"""The registry of consumers: a queue's name and the user's function, found in ``queue_consumers`` modules."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar

from django.core.exceptions import ImproperlyConfigured

from django_dbqueue import conf
from django_dbqueue.consumers import consumer_modules
from django_dbqueue.envelope import check_lease, check_queue, check_seconds, check_whole
from django_dbqueue.exceptions import InvalidMessage, InvalidSchedule, SchedulesNotInstalled
from django_dbqueue.schedules import declarations

Handler = TypeVar("Handler", bound=Callable[..., object])
Kind = Literal["single", "batch", "async"]
"""How a handler runs: with one message, or with a list of them, in a thread; or on the event loop."""
MAX_BATCH: Final = 900
"""Messages of one call: as many as one statement settles."""
MAX_BATCH_WAIT: Final = 60.0
"""Seconds."""

logger = logging.getLogger("django_dbqueue")


class MessageRunner(Protocol):
    """What runs the messages of a queue in a handler's place: it is given the worker's own view of a delivery."""

    def run(self, delivery: Any) -> Any:
        """Run it and return the worker's verdict; raise what ends it otherwise."""

    def judge(self, delivery: Any, error: BaseException) -> Any:
        """Return the verdict that follows from what ``run`` raised."""

    def name_of(self, headers_text: str | None) -> str | None:
        """Return the dotted name of what it runs for a message with these headers, if they say."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A handler and its decorator's options."""

    queue: str
    handler: Callable[..., Any]
    options: dict[str, object] = field(default_factory=dict)
    transactional: bool = False
    schedule: dict[str, object] | None = None
    """The decorator's schedule, in the form of ``DBQUEUE["SCHEDULES"]``."""
    runner: MessageRunner | None = None
    """What runs its messages instead of a handler that gets the message: the tasks of a queue."""
    resource: Callable[[], Any] | None = None
    """What makes the async context manager whose value the handler gets besides the message."""
    batch: int | None = None
    """How many messages its handler gets at once, in a list; None: one, and no list."""
    batch_wait: float = 0.0
    """Seconds that a message waits for others to fill the list."""
    is_async: bool = field(init=False)
    """Whether the handler is a coroutine function."""
    kind: Kind = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.handler))
        object.__setattr__(self, "kind", "async" if self.is_async else "batch" if self.batch else "single")

    @property
    def name(self) -> str:
        """The handler's dotted name; for an object that has none, its own description."""
        handler: object = self.handler
        return f"{handler.__module__}.{getattr(handler, '__qualname__', None) or repr(handler)}"

    def resolved(self) -> conf.QueueOptions:
        """The options in force: the decorator's, then the settings'."""
        return conf.queue_options(self.queue, self.options)


def largest_batch(consumers: Iterable[Consumer]) -> int:
    """Return how many messages one of these handlers gets at once at most; 0 if none gets a list."""
    return max((each.batch or 0 for each in consumers), default=0)


_registry: dict[str, Consumer] = {}
Source = Callable[[Iterable[str]], dict[str, Consumer]]
_sources: list[Source] = []


def add_source(source: Source) -> None:
    """Let ``registered`` ask for more consumers, of queues that no function consumes; it is given the named queues."""
    if source not in _sources:
        _sources.append(source)


def consumer(
    queue: str,
    *,
    lease: float | None = None,
    max_reads: int | None = None,
    timeout: float | None = None,
    backoff: float | None = None,
    backoff_max: float | None = None,
    transactional: bool = False,
    resource: Callable[[], Any] | None = None,
    batch: int | None = None,
    batch_wait: float | timedelta = 0.0,
    cron: str | None = None,
    timezone: str | None = None,
    missed: declarations.Missed = "latest",
) -> Callable[[Handler], Handler]:
    """Register a function (or ``async def``) as the consumer of a queue; it gets the message.

    Returning acks the message; ``Retry`` and ``Reject`` decide otherwise; any other exception is a failure, retried
    with exponential back-off (``backoff`` seconds doubled each time up to ``backoff_max``, with jitter) until
    ``max_reads``. ``lease`` and ``timeout`` are seconds. With ``transactional`` the handler runs inside
    ``message.transaction()``: its rows in the queue's database and the ack are one commit, and any exception undoes
    them (promise P15).

    ``resource`` makes an async context manager, or is an async generator function that yields once: an ``async def``
    consumer gets its value as second argument. Each child enters it once and leaves it when it stops; consumers with
    the same ``resource`` share it.

    With ``batch`` the handler gets a list of up to that many messages. One waits up to ``batch_wait`` seconds for
    others. Returning acks all, in one statement; with ``transactional`` in one commit with the handler's rows.

    With ``cron``, every worker that has this consumer makes sure that a message with the payload {} is sent at each due
    time; ``timezone`` and ``missed`` are as in ``DBQUEUE["SCHEDULES"]``.
    """
    options = _checked(
        queue, transactional, max_reads, lease=lease, timeout=timeout, backoff=backoff, backoff_max=backoff_max
    )
    patience, schedule = _batch_wait(queue, batch, batch_wait), _schedule_of(queue, cron, timezone, missed)
    make = partial(Consumer, queue, options=options, transactional=transactional, schedule=schedule)
    return _registering(partial(make, resource=resource, batch=batch, batch_wait=patience))


def _checked(queue: str, transactional: object, max_reads: int | None, **seconds: float | None) -> dict[str, object]:
    """Return those of the options of its messages that were given."""
    check_queue(queue)
    options: dict[str, object] = {name: check_seconds(name, each) for name, each in seconds.items() if each is not None}
    if "lease" in options:
        check_lease(seconds["lease"], name=f"lease of the consumer of {queue!r}")
    if "timeout" in options and not options["timeout"]:
        raise InvalidMessage(f"timeout of the consumer of {queue!r} must be more than 0 seconds.")
    if max_reads is not None:
        options["max_reads"] = check_whole("max_reads", max_reads, low=0, high=2_000_000_000)
    if not isinstance(transactional, bool):
        raise InvalidMessage(
            f"transactional of the consumer of {queue!r} must be True or False, not {transactional!r}."
        )
    return options


def _registering(make: Callable[..., Consumer]) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        new = make(handler)
        _refuse_what_cannot_run(new.queue, handler)
        _check_resource(new)
        _check_async(new)
        earlier = _registry.get(new.queue)
        if earlier is not None and earlier.name != new.name:
            raise ImproperlyConfigured(
                f"Queue {new.queue!r} has two consumers, {earlier.name} and {new.name}: "
                "give one of them another queue, or call both from one."
            )
        _registry[new.queue] = new
        return handler

    return register


def _check_async(new: Consumer) -> None:
    if new.transactional and new.is_async:
        raise ImproperlyConfigured(
            f"{new.name}, the consumer of queue {new.queue!r}, is async and can't be transactional: Django's "
            "transactions are not async. Write it as def, or leave transactional out and use "
            "message.transaction() in a function that it calls by sync_to_async()."
        )
    if new.batch is not None and new.is_async:
        raise ImproperlyConfigured(
            f"{new.name}, the consumer of queue {new.queue!r}, is async and can't have a batch: coroutines run beside "
            "each other anyway. Write it as def, or leave batch out."
        )


def _refuse_what_cannot_run(queue: str, handler: object) -> None:
    if not callable(handler):
        raise ImproperlyConfigured(f"The consumer of queue {queue!r} must be a function, not {handler!r}.")
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise ImproperlyConfigured(
            f"{handler!r}, the consumer of queue {queue!r}, contains a yield: calling it creates a generator and "
            "runs none of it, so messages would be acknowledged unprocessed. Remove the yield."
        )


def _batch_wait(queue: str, batch: int | None, batch_wait: object) -> float:
    if batch is not None:
        check_whole(f"batch of the consumer of {queue!r}", batch, low=1, high=MAX_BATCH)
    what = f"batch_wait of the consumer of {queue!r}"
    seconds = check_seconds(what, batch_wait)
    if seconds > MAX_BATCH_WAIT:
        raise InvalidMessage(f"{what} must be at most {MAX_BATCH_WAIT:g} seconds, not {seconds:g}.")
    if seconds and batch is None:
        raise InvalidMessage(f"{what} needs batch too: how many messages make a full one.")
    return seconds


def _check_resource(new: Consumer) -> None:
    if new.resource is None:
        return
    what = f"{new.name}, the consumer of queue {new.queue!r},"
    if not callable(new.resource) or inspect.iscoroutinefunction(new.resource):
        raise ImproperlyConfigured(
            f"{what} has the resource {new.resource!r}: give a function that returns an async context manager, or an "
            "async generator function that yields once."
        )
    if not new.is_async:
        raise ImproperlyConfigured(f"{what} has a resource, so it must be async: write it as async def.")
    try:
        inspect.signature(new.handler).bind(None, None)
    except TypeError as error:
        raise ImproperlyConfigured(
            f"{what} has a resource, and must take it as its second argument, after the message ({error})."
        ) from None


def _schedule_of(queue: str, cron: str | None, timezone: str | None, missed: str) -> dict[str, object] | None:
    if cron is None:
        if timezone is not None or missed != "latest":
            raise InvalidSchedule(f"The consumer of {queue!r} sets timezone or missed, but no cron for them.")
        return None
    schedule: dict[str, object] = {"queue": queue, "cron": cron, "timezone": timezone, "missed": missed}
    with suppress(SchedulesNotInstalled):  # a process that runs no worker needs no cron library
        declarations.read(queue, schedule)
    return schedule


def autodiscover() -> None:
    """Import ``queue_consumers`` of every installed app."""
    consumer_modules.discover()


def has_consumer(queue: str) -> bool | None:
    """Return whether this project has a consumer for a queue; None if not all its modules can be imported here."""
    if queue in registered([queue]):
        return True
    try:
        autodiscover()
    except Exception:
        logger.warning("not all consumers could be imported", exc_info=True)
        return None
    return queue in registered([queue])


def plans() -> list[declarations.Plan]:
    """Return every schedule: those of the settings, and those of the consumers, named after their queue."""
    return [*declarations.of_settings(), *filter(None, map(plan_of, _registry.values()))]


def plan_of(each: Consumer) -> declarations.Plan | None:
    """Return a consumer's schedule; InvalidSchedule or SchedulesNotInstalled if no worker can start with it."""
    if each.schedule is None:
        return None
    if each.queue in conf.get("SCHEDULES"):
        raise InvalidSchedule(
            f"Two schedules are named {each.queue!r}: that of the consumer {each.name}, which has its queue's "
            f"name, and one of {conf.NAME}['SCHEDULES']. Give the latter another name."
        )
    return declarations.read(each.queue, each.schedule)


def functions() -> dict[str, Consumer]:
    """Return the consumers that are functions, by queue."""
    return dict(_registry)


def registered(named: Iterable[str] = ()) -> dict[str, Consumer]:
    """Return the consumers by queue: functions, and what else the sources have for queues without one.

    Some have a consumer for whatever queue is ``named``.
    """
    found = functions()
    for source in _sources:
        found = source(named) | found
    return found
