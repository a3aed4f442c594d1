"""The registry of consumers: a queue's name and the user's function, found in ``queue_consumers`` modules."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack

from django.core.exceptions import ImproperlyConfigured

from django_dbqueue import conf
from django_dbqueue.consumers import consumer_modules
from django_dbqueue.consumers.scheduled import Scheduled
from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.schedules import declarations
from django_dbqueue.settable.option_table import SetIn, read_options

Handler = TypeVar("Handler", bound=Callable[..., object])
Kind = Literal["single", "batch", "async"]
"""How a handler runs: with one message, or with a list of them, in a thread; or on the event loop."""

logger = logging.getLogger("django_dbqueue")


class MessageRunner(Protocol):
    """What runs the messages of a queue in a handler's place: it is given the worker's own view of a delivery."""

    def run(self, delivery: Any) -> Any:
        """Run it and return the worker's verdict; raise what ends it otherwise."""

    def judge(self, delivery: Any, error: BaseException) -> Any:
        """Return the verdict that follows from what ``run`` raised."""

    def options_of(self, message: Any, of_queue: conf.QueueOptions) -> conf.QueueOptions:
        """Return what holds for a message; what its function doesn't set is its queue's."""

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

    def name_for(self, headers_text: str | None) -> str:
        """Return what handles a message with these headers: the task that they name, if they can be read, or it."""
        return (None if self.runner is None else self.runner.name_of(headers_text)) or self.name

    def resolved(self) -> conf.QueueOptions:
        """The options in force: the decorator's, then the settings'."""
        return conf.queue_options(self.queue, self.options)

    def options_of(self, message: Any) -> conf.QueueOptions:
        """Return what holds for one of its messages."""
        return self.resolved() if self.runner is None else self.runner.options_of(message, self.resolved())


def largest_batch(consumers: Iterable[Consumer]) -> int:
    """Return how many messages one of these handlers gets at once at most; 0 if none gets a list."""
    return max((each.batch or 0 for each in consumers), default=0)


_registry: dict[str, Consumer] = {}
Source = Callable[[Iterable[str]], dict[str, Consumer]]
NameIn = Callable[[str | None], str | None]
_sources: list[tuple[Source, Callable[[], Iterable[Scheduled]], NameIn]] = []


def add_source(source: Source, scheduled_source: Callable[[], Iterable[Scheduled]], name_in: NameIn) -> None:
    """Let ``registered`` ask for more consumers, of queues that no function consumes; it is given the named queues.

    ``scheduled_source`` returns what else has a ``cron``, ``name_in`` what headers name that only its consumers run.
    """
    if (one := (source, scheduled_source, name_in)) not in _sources:
        _sources.append(one)


def name_in(headers_text: str | None) -> str | None:
    """Return what headers name that no function consumes, if they name such a thing."""
    return next((name for *_, find in _sources if (name := find(headers_text)) is not None), None)


class ConsumerOptions(TypedDict, total=False):
    """What ``@consumer`` takes besides the queue: ``settable/option_table.py`` says what each does."""

    lease: float | timedelta | None
    max_reads: int | None
    timeout: float | timedelta | None
    interruptible: bool
    backoff: float | timedelta | None
    backoff_max: float | timedelta | None
    transactional: bool
    resource: Callable[[], Any] | None
    batch: int | None
    batch_wait: float | timedelta
    cron: str | None
    timezone: str | None
    missed: declarations.Missed


def consumer(queue: str, **options: Unpack[ConsumerOptions]) -> Callable[[Handler], Handler]:
    """Register a function (or ``async def``) as the consumer of a queue; it gets the message.

    Returning acks the message; ``Retry`` and ``Reject`` decide otherwise; any other exception is a failure, retried
    with exponential back-off (``backoff`` seconds doubled each time up to ``backoff_max``, with jitter) until
    ``max_reads``. ``lease``, ``timeout`` and back-off are seconds, or timedeltas. With ``transactional`` the handler
    runs inside ``message.transaction()``: its rows in the queue's database and the ack are one commit, and any
    exception undoes them (promise P15).

    ``resource`` makes an async context manager, or is an async generator function that yields once: an ``async def``
    consumer gets its value as second argument. Each child enters it once and leaves it when it stops; consumers with
    the same ``resource`` share it.

    With ``batch`` the handler gets a list of up to that many messages. One waits up to ``batch_wait`` seconds for
    others. Returning acks all, in one statement; with ``transactional`` in one commit with the handler's rows.

    With ``cron``, every worker that has this consumer makes sure that a message with the payload {} is sent at each due
    time; ``timezone`` and ``missed`` are as in ``DBQUEUE["SCHEDULES"]``.

    InvalidMessage and InvalidSchedule say which option can't be so, TypeError which one a consumer doesn't take.
    """
    if callable(queue):
        raise TypeError(f'@consumer on {queue!r} lacks the queue: write @consumer("emails"), with its name.')
    check_queue(queue)
    schedule = declarations.of_function(f"The consumer of {queue!r}", queue, options)
    holder = f"of the consumer of {queue!r}"
    try:
        given = read_options(SetIn.CONSUMER, options, of=f" {holder}")
    except TypeError as error:
        raise TypeError(f"@consumer {error}") from None
    if given.get("batch_wait") and "batch" not in given:
        raise InvalidMessage(f"batch_wait {holder} needs batch too: how many messages make a full one.")
    of_messages = {name: given[name] for name in conf.PER_QUEUE if name in given}
    of_consumer = {name: given[name] for name in ("transactional", "resource", "batch", "batch_wait") if name in given}
    return _registering(partial(Consumer, queue, options=of_messages, schedule=schedule, **of_consumer))


def _registering(make: Callable[..., Consumer]) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        new = make(handler)
        _refuse_what_cannot_run(new.queue, handler)
        _check_resource(new)
        _check_parameters(new)
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


def _check_parameters(new: Consumer) -> None:
    wanted = ["the messages in a list" if new.batch else "the message", "its resource as second argument"]
    del wanted[1 if new.resource is None else 2 :]
    try:
        inspect.signature(new.handler).bind(*wanted)
    except ValueError:  # written in C
        return
    except TypeError as error:
        what = f"{new.name}, the consumer of queue {new.queue!r},"
        raise ImproperlyConfigured(f"{what} must take {' and '.join(wanted)} ({error}).") from None


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


def scheduled() -> list[Scheduled]:
    """Return every function that has a ``cron``: consumers, and what else the sources have."""
    found = [
        Scheduled(each.queue, f"the consumer {each.name}", partial(declarations.read, each.queue, each.schedule))
        for each in _registry.values()
        if each.schedule is not None
    ]
    return [*found, *(each for _, source, _ in _sources for each in source())]


def plans() -> list[declarations.Plan]:
    """Return every schedule: those of the settings, and those of functions."""
    found = scheduled()
    return [*declarations.of_settings(), *(each.plan(found) for each in found)]


def functions() -> dict[str, Consumer]:
    """Return the consumers that are functions, by queue."""
    return dict(_registry)


def registered(named: Iterable[str] = ()) -> dict[str, Consumer]:
    """Return the consumers by queue: functions, and what else the sources have for queues without one.

    Some have a consumer for whatever queue is ``named``.
    """
    found = functions()
    for source, *_ in _sources:
        found = source(named) | found
    return found
