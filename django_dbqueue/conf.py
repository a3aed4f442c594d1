"""The one settings dict ``DBQUEUE``: read lazily; the first place that sets a value wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.conf import settings

NAME: Final = "DBQUEUE"
MAX_CONCURRENCY: Final = 10_000
"""How many messages of async consumers a child runs at once at most."""

MOST_IN_A_ROW: Final = 900
"""How many of a group a worker takes at once at most (``group_batch``): as many as one statement settles."""

TOP_LEVEL: Final[dict[str, object]] = {
    #: alias of the database that the queue lives in, for models, workers, the admin, commands and checks. `None`:
    #: where Django's routers send writes
    "DATABASE": None,
    #: options for all queues
    "DEFAULTS": {},
    #: options for individual queues, by name
    "QUEUES": {},
    #: larger payloads, as stored in UTF-8, are refused at enqueue
    "MAX_PAYLOAD_BYTES": 1024 * 1024,
    #: on PostgreSQL, `enqueue` wakes waiting workers by NOTIFY; without it they poll, as on the other databases
    "NOTIFY": True,
    #: how many messages of [async consumers](async.md) each child of a worker runs at once, from 1 to 10,000;
    #: `--concurrency` overrides it
    "CONCURRENCY": 100,
    #: which parts of payloads, headers and errors are hidden from everybody, [see below](#redact)
    "REDACT": (),
    #: each child of a worker holds a named lock in the database, which shows others that it is alive. `False`:
    #: they look for its session in the server's list ([who is dead](databases.md#who-is-dead))
    "SESSION_LOCKS": True,
    #: the queue through which [bulk operations](console.md#bulk-operations) go, one message for each step; every
    #: worker started without `--queues` serves it, others only if they name it
    "OPERATIONS_QUEUE": "dbqueue.operations",
    #: seconds after which workers delete the record of what happened to messages out of the ordinary: failures,
    #: rescues, operators' actions ([the life of a message](console.md#the-life-of-a-message))
    "EVENT_RETENTION": 30 * 86_400.0,
    #: whether OpenTelemetry [traces messages](observability.md#traces): `True`, `False`, or `None`, if a provider is
    #: set when Django or a worker starts. Read then, and not later
    "TRACE": None,
    #: `True`: the handler's run is a child of the span that sent its message, instead of a trace of its own that links
    #: to it; read like `TRACE`
    "TRACE_AS_PARENT": False,
    #: the bearer token that opens the pages for [monitors](observability.md#figures); without one they need the
    #: permission
    "MONITOR_TOKEN": None,
    #: what is logged of a failure that is retried: `"line"`, or `"traceback"`, as of a death. A worker with
    #: `--verbosity 2` logs tracebacks
    "LOG_RETRIES": "line",
    #: messages that workers enqueue at set times, [see below](#schedules)
    "SCHEDULES": {},
}
"""Settings and their defaults. The comments (`#:`) are the tables of docs/settings.md: `bin/docs --write`."""

LINE: Final = "line"
TRACEBACK: Final = "traceback"
"""How much is logged of a retry."""

KEEP: Final = "keep"
DELETE: Final = "delete"
"""What becomes of an acked row."""

NEXT: Final = "next"
HOLD: Final = "hold"
"""What a dead message means for its group: the next one runs, or the group waits for an operator."""

PER_QUEUE: Final[dict[str, object]] = {
    #: how long a claim lasts; the worker extends it at a third of its length while it holds the message
    "lease": 60.0,
    #: deliveries after which a failing message is dead; 0 means no limit
    "max_reads": 5,
    #: for messages that don't specify one
    "priority": 0,
    #: age at which workers move done rows into the history
    "retention": 7 * 86_400.0,
    #: the same for dead rows; `None`: they stay until an operator requeues or purges them
    "dead_retention": None,
    #: age at which workers delete rows of the history; `None`: they stay, [see below](#history_retention)
    "history_retention": None,
    #: what becomes of an acked row: `"keep"`, or `"delete"`, [see below](#on_ack)
    "on_ack": KEEP,
    #: how long a consumer may run
    "timeout": None,
    #: wait before the first retry; doubled for each further one, then reduced at random by up to half
    "backoff": 2.0,
    #: the longest wait
    "backoff_max": 3_600.0,
    #: `"*"`: all messages of the queue are one group, and none can name another
    "group": None,
    #: how many messages of one group may run at once, from 1 to 10,000; 1 lets them run one after the other, in the
    #: order in which they were sent. `Group.objects.limit()` and [the console](console.md#groups) change it for a
    #: single group
    "group_limit": 1,
    #: how many messages of a group a worker claims at once, to run them one after the other, from 1 to 900;
    #: [see below](#group_batch)
    "group_batch": 1,
    #: how many messages of each group may start: `"10/s"`, `"100/m"` or `"5000/h"`; [see below](#group_rate).
    #: `Group.objects.rate()` changes it for a single group
    "group_rate": None,
    #: how many messages of a group may run at once, above `group_limit`, while workers have nothing else to do;
    #: [see below](#group_burst)
    "group_burst": None,
    #: what a dead message means for its group: `"next"`: the next one runs; `"hold"`: the group waits until somebody
    #: requeues, drops or purges it
    "on_dead": NEXT,
}
"""Options that DEFAULTS and each of QUEUES can set: lease, retentions, timeout and back-off in seconds."""

PER_SCHEDULE: Final[dict[str, object]] = {
    #: [required] where the messages go
    "queue": None,
    #: [required] five fields: minute, hour, day of month, month, day of week; with six, the first is the second
    "cron": None,
    #: [`TIME_ZONE`] the time zone of the expression
    "timezone": None,
    #: what becomes of due times that passed while no worker ran: `"latest"`: the last of them is enqueued, once;
    #: `"all"`: each of the last 100; `"skip"`: none that is more than a minute past
    "missed": "latest",
    #: payload of every message
    "payload": {},
    #: key of every message. While a message with it is live, a due time enqueues nothing, so runs don't overlap
    "key": None,
}
"""Options of each of SCHEDULES; queue and cron are required, and without a timezone TIME_ZONE applies."""


_SENT: Final = {name: PER_QUEUE[name] for name in ("priority", "group")}


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A queue's options, resolved: from its consumer, then QUEUES, DEFAULTS, and the built-in default."""

    lease: float
    max_reads: int
    priority: int
    retention: float
    dead_retention: float | None
    history_retention: float | None
    on_ack: str
    timeout: float | None
    backoff: float
    backoff_max: float
    group: str | None
    group_limit: int
    group_batch: int
    group_rate: str | None
    group_burst: int | None
    on_dead: str


def get(name: str) -> Any:
    """Return one top-level setting."""
    return getattr(settings, NAME, {}).get(name, TOP_LEVEL[name])


def redaction() -> tuple[tuple[str, ...], str | None]:
    """Return the REDACT setting: the dotted names of fields, and the dotted path of a callable or None."""
    chosen: Any = get("REDACT")
    if isinstance(chosen, str):
        return (), chosen
    if isinstance(chosen, Mapping):
        return tuple(chosen.get("names", ())), chosen.get("callable")
    return tuple(chosen), None


def tracing() -> bool | None:
    """Return TRACE, also where the settings are not what they should be: Django has not been started yet."""
    configured = getattr(settings, NAME, {})
    wanted = configured.get("TRACE") if isinstance(configured, Mapping) else None
    return wanted if isinstance(wanted, bool) else None


def queue_options(queue: str, consumer_options: Mapping[str, object] | None = None) -> QueueOptions:
    """Return the options of a queue; a consumer's options override the settings."""
    configured = getattr(settings, NAME, {})
    specific, general = configured.get("QUEUES", {}).get(queue, {}), configured.get("DEFAULTS", {})
    chosen = {**PER_QUEUE, **general, **specific, **(consumer_options or {})}
    return QueueOptions(**{name: chosen[name] for name in PER_QUEUE})


class ForSenders(NamedTuple):
    """What every enqueue needs of the settings."""

    priority: int
    max_bytes: int
    is_whole_queue: bool
    """Whether all messages of the queue are one group."""


def for_senders(queue: str) -> ForSenders:
    """Return what every enqueue into a queue needs."""
    configured = getattr(settings, NAME, {})  # read once, because it costs more than all the rest
    specific, general = configured.get("QUEUES", {}).get(queue, {}), configured.get("DEFAULTS", {})
    chosen: Mapping[str, Any] = {**_SENT, **general, **specific} if general or specific else _SENT
    return ForSenders(
        chosen["priority"],
        configured.get("MAX_PAYLOAD_BYTES", TOP_LEVEL["MAX_PAYLOAD_BYTES"]),
        chosen["group"] is not None,
    )


def history_retentions() -> tuple[float | None, dict[str, float | None]]:
    """Return for how many seconds the history keeps rows, None for ever: by default, and of the queues that differ."""
    configured = getattr(settings, NAME, {})
    default: float | None = _first("history_retention", configured, "")
    named = {queue: _first("history_retention", configured, queue) for queue in configured.get("QUEUES", {})}
    return default, {queue: seconds for queue, seconds in named.items() if seconds != default}


def on_ack(queue: str) -> str:
    """Return what becomes of a queue's acked messages: KEEP or DELETE. Every ack needs only this."""
    choice: str = _first("on_ack", getattr(settings, NAME, {}), queue)
    return choice


def _first(name: str, configured: Mapping[str, Any], queue: str) -> Any:
    """Return one option of a queue, from the place that overrides the others."""
    specific = configured.get("QUEUES", {}).get(queue, {})
    return specific[name] if name in specific else configured.get("DEFAULTS", {}).get(name, PER_QUEUE[name])
