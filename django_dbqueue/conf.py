"""The one settings dict ``DBQUEUE``: read lazily; the first place that sets a value wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from django_dbqueue.settable.option_table import SetIn, defaults

NAME: Final = "DBQUEUE"
MAX_CONCURRENCY: Final = 10_000
"""How many messages of async consumers a child runs at once at most."""

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

DELETE: Final = "delete"
"""What becomes of an acked row, if it isn't kept."""

HOLD: Final = "hold"
"""What a dead message means for its group: it waits for an operator, and the next one doesn't run."""

PER_QUEUE: Final[dict[str, object]] = defaults(SetIn.QUEUE)
"""Options that DEFAULTS and each of QUEUES can set, and their defaults."""

PER_SCHEDULE: Final[dict[str, Any]] = defaults(SetIn.SCHEDULE)
"""Options of each of SCHEDULES; queue and cron are required, and without a timezone TIME_ZONE applies."""

_SENT: Final = {name: PER_QUEUE[name] for name in ("priority", "group")}


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A queue's options, resolved: from its consumer, then QUEUES, DEFAULTS, and the built-in default. In seconds."""

    lease: float
    max_reads: int
    priority: int
    retention: float
    dead_retention: float | None
    history_retention: float | None
    on_ack: str
    timeout: float | None
    interruptible: bool
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
    chosen = getattr(settings, NAME, {}).get(name, TOP_LEVEL[name])
    return chosen.total_seconds() if isinstance(chosen, timedelta) else chosen  # lengths of time are used in seconds


def is_readable() -> bool:
    """Return whether all is a dict that must be one, so that options can be read; if not, the checks say what isn't."""
    configured = getattr(settings, NAME, {})
    if not isinstance(configured, Mapping):
        return False
    queues = configured.get("QUEUES", {})
    dicts = [configured.get("DEFAULTS", {}), queues, *(queues.values() if isinstance(queues, Mapping) else ())]
    return all(isinstance(each, Mapping) for each in dicts)


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
    chosen: dict[str, Any] = {**PER_QUEUE, **general, **specific, **(consumer_options or {})}
    used: dict[str, Any] = {
        name: each.total_seconds() if isinstance(each := chosen[name], timedelta) else each for name in PER_QUEUE
    }
    return QueueOptions(**used)


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


def require_app() -> None:
    """Raise ImproperlyConfigured if the project hasn't installed the app; before apps are loaded, Django says that."""
    if apps.apps_ready and not apps.is_installed("django_dbqueue"):
        raise ImproperlyConfigured('Add "django_dbqueue" to INSTALLED_APPS: the queue\'s tables come with the app.')


def aware(moment: Any) -> Any:
    """Return a moment as Django means it: without ``USE_TZ`` a naive one is in the current zone."""
    is_local = isinstance(moment, datetime) and moment.tzinfo is None and not settings.USE_TZ
    return timezone.make_aware(moment) if is_local else moment


def history_retentions() -> tuple[float | None, dict[str, float | None]]:
    """Return for how many seconds the history keeps rows, None for ever: by default, and of the queues that differ."""
    configured = getattr(settings, NAME, {})
    default: float | None = _first("history_retention", configured, "")
    named = {queue: _first("history_retention", configured, queue) for queue in configured.get("QUEUES", {})}
    return default, {queue: seconds for queue, seconds in named.items() if seconds != default}


def on_ack(queue: str) -> str:
    """Return what becomes of a queue's acked messages: DELETE, or they are kept. Every ack needs only this."""
    choice: str = _first("on_ack", getattr(settings, NAME, {}), queue)
    return choice


def _first(name: str, configured: Mapping[str, Any], queue: str) -> Any:
    """Return one option of a queue, from the place that overrides the others."""
    specific = configured.get("QUEUES", {}).get(queue, {})
    chosen = specific[name] if name in specific else configured.get("DEFAULTS", {}).get(name, PER_QUEUE[name])
    return chosen.total_seconds() if isinstance(chosen, timedelta) else chosen
