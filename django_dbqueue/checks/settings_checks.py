"""The settings dict ``DBQUEUE``: names, types and bounds. Nothing in it makes a check crash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.conf import settings
from django.core import checks

from django_dbqueue import conf
from django_dbqueue.envelope import QUEUE_NAME, check_queue
from django_dbqueue.exceptions import InvalidMessage, InvalidSchedule, SchedulesNotInstalled
from django_dbqueue.redaction import policy
from django_dbqueue.schedules import declarations
from django_dbqueue.settable.kinds import YES_OR_NO, Kind, Unfit, fitted, of_type, one_of, seconds, shown, whole
from django_dbqueue.settable.option_table import OPTIONS_OF, SetIn, did_you_mean, listed, why_not

SHORTEST_LEASE: Final = 3.0
"""A lease is extended at a third of its length and workers beat once a second."""
_GIBIBYTE: Final = 1024**3
INSTALL: Final = "Install it, or declare no schedules. Where only workers have it, silence dbqueue.E007 elsewhere."


def _queue_name(value: object) -> object:
    if isinstance(value, str) and QUEUE_NAME.match(value):
        return value
    raise Unfit("the name of a queue")


def _redaction(value: object) -> object:
    if not _can_be_redacted(value):
        raise Unfit(
            "a list of dotted names ('card.number', 'users.*.email'), the dotted path of a callable, or a dict with "
            "'names' and 'callable' for both"
        )
    return value


def _can_be_redacted(value: object) -> bool:
    if isinstance(value, str):
        return "." in value
    names, path = value, None
    if isinstance(value, Mapping):
        if not value.keys() <= {"names", "callable"}:
            return False
        names, path = value.get("names", ()), value.get("callable")
    if not isinstance(names, list | tuple) or not all(_is_dotted_name(name) for name in names):
        return False
    return path is None or (isinstance(path, str) and "." in path)


def _is_dotted_name(name: object) -> bool:
    return isinstance(name, str) and all(name.split(".")) and name.split(".")[-1] != policy.DEEP


TOP_LEVEL_KINDS: Final[dict[str, Kind]] = {
    "DATABASE": of_type((str, type(None)), "the alias of a database, as in DATABASES, or None"),
    "DEFAULTS": of_type(Mapping, "a dict of options"),
    "QUEUES": of_type(Mapping, "a dict from queue names to dicts of options"),
    "MAX_PAYLOAD_BYTES": whole(1, _GIBIBYTE),
    "CONCURRENCY": whole(1, conf.MAX_CONCURRENCY),
    "NOTIFY": YES_OR_NO,
    "REDACT": _redaction,
    "SCHEDULES": of_type(Mapping, "a dict from schedule names to dicts of options"),
    "SESSION_LOCKS": YES_OR_NO,
    "OPERATIONS_QUEUE": _queue_name,
    "EVENT_RETENTION": seconds(),
    "TRACE": of_type((bool, type(None)), "True, False, or None (if OpenTelemetry has a provider)"),
    "TRACE_AS_PARENT": YES_OR_NO,
    "LOG_RETRIES": one_of(conf.LINE, conf.TRACEBACK),
    "MONITOR_TOKEN": of_type((str, type(None)), "a long random text, or None"),
}
PER_QUEUE_KINDS: Final = {name: each.kind for name, each in OPTIONS_OF[SetIn.QUEUE].items()}


def check_settings(**_: object) -> list[checks.CheckMessage]:
    """Check ``DBQUEUE`` as it is."""
    given = getattr(settings, conf.NAME, {})
    if not isinstance(given, Mapping):
        return [
            checks.Error(
                f"{conf.NAME} must be a dict, not {shown(given)}.",
                hint=f'For example: {conf.NAME} = {{"DATABASE": "default", "DEFAULTS": {{"lease": 60}}}}. '
                "Leave it out for the defaults.",
                id="dbqueue.E001",
            )
        ]
    return [*_top_level(given), *_defaults(given), *_queues(given), *_schedules(given)]


def queue_alias() -> str | None:
    """Return the alias that ``DATABASE`` names, or None if it names none: then the routers decide."""
    given = getattr(settings, conf.NAME, {})
    alias = given.get("DATABASE", conf.TOP_LEVEL["DATABASE"]) if isinstance(given, Mapping) else None
    return alias if isinstance(alias, str) and alias in settings.DATABASES else None


def unknown_alias(alias: object, where: str) -> checks.Error:
    """Return the error for an alias that doesn't exist."""
    return checks.Error(
        f"{where} names the database {shown(alias)}, which is not in DATABASES.",
        hint=f"{did_you_mean(alias, settings.DATABASES)}DATABASES has {listed(settings.DATABASES)}.",
        id="dbqueue.E005",
    )


def _top_level(given: Mapping[object, object]) -> Iterator[checks.CheckMessage]:
    yield from _known(given, TOP_LEVEL_KINDS, conf.NAME)
    yield from _read(given, TOP_LEVEL_KINDS, conf.NAME)[1]
    alias = given.get("DATABASE")
    if isinstance(alias, str) and alias not in settings.DATABASES:
        yield unknown_alias(alias, f"{conf.NAME}['DATABASE']")
    if "REDACT" in given and _can_be_redacted(given["REDACT"]) and (path := conf.redaction()[1]) is not None:
        yield from _hook(path)


def _hook(path: str) -> Iterator[checks.CheckMessage]:
    try:
        policy.load_hook(path)
    except Exception as error:  # a module may raise anything when it is imported
        yield checks.Error(
            f"{conf.NAME}['REDACT'] names the callable {shown(path)}, which can't be imported "
            f"({type(error).__name__}: {error}), so no payload is shown.",
            hint="Name a function (queue, payload, headers) -> (payload, headers); put field names in a list.",
            id="dbqueue.E008",
        )


def _defaults(given: Mapping[object, object]) -> Iterator[checks.CheckMessage]:
    defaults = given.get("DEFAULTS", {})
    if isinstance(defaults, Mapping):
        yield from _options(defaults, f"{conf.NAME}['DEFAULTS']", conf.PER_QUEUE)


def _queues(given: Mapping[object, object]) -> Iterator[checks.CheckMessage]:
    queues, defaults = given.get("QUEUES", {}), given.get("DEFAULTS", {})
    if not isinstance(queues, Mapping):
        return
    general, _ = _read(defaults if isinstance(defaults, Mapping) else {}, PER_QUEUE_KINDS, "")
    for queue, options in queues.items():
        place = f"{conf.NAME}['QUEUES'][{shown(queue)}]"
        try:
            check_queue(queue)
        except InvalidMessage as error:
            yield checks.Error(
                f"{conf.NAME}['QUEUES'] has an invalid queue name: {shown(queue)}.",
                hint=str(error) if isinstance(queue, str) and len(queue) < 100 else "Use 1 to 64 characters of text.",
                id="dbqueue.E004",
            )
        if isinstance(options, Mapping):
            yield from _options(options, place, conf.PER_QUEUE | general)
        else:
            yield checks.Error(
                f"{place} must be a dict of options, not {shown(options)}.",
                hint=f"The options are {listed(PER_QUEUE_KINDS)}.",
                id="dbqueue.E003",
            )


def _schedules(given: Mapping[object, object]) -> Iterator[checks.CheckMessage]:
    declared = given.get("SCHEDULES", {})
    for name, options in declared.items() if isinstance(declared, Mapping) else ():
        place = f"{conf.NAME}['SCHEDULES'][{shown(name)}]"
        try:
            declarations.read(name, options)
        except InvalidSchedule as error:
            yield checks.Error(
                f"{place} is not a valid schedule. {error}",
                hint='For example: {"queue": "reports", "cron": "0 3 * * *", "timezone": "Europe/Berlin"}.',
                id="dbqueue.E006",
            )
        except SchedulesNotInstalled as error:
            yield checks.Error(f"{place}: its due times can't be computed. {error}", hint=INSTALL, id="dbqueue.E007")
            return


def _options(options: Mapping[Any, Any], place: str, inherited: Mapping[str, object]) -> Iterator[checks.CheckMessage]:
    yield from _known(options, PER_QUEUE_KINDS, place)
    used, wrong = _read(options, PER_QUEUE_KINDS, place)
    yield from wrong
    if not wrong:
        yield from _odd(used, {**inherited, **used}, place)


def _odd(used: Mapping[str, Any], merged: Mapping[str, Any], place: str) -> Iterator[checks.Warning]:
    """Check which values do no good, or don't go together; ``merged`` has those that are inherited too."""
    if used.get("lease", SHORTEST_LEASE) < SHORTEST_LEASE:
        yield checks.Warning(
            f"{place}['lease'] is {used['lease']:g} seconds: a worker that is busy for a moment loses the lease, and "
            "the message is delivered again.",
            hint=(
                f"Use {SHORTEST_LEASE:.0f} seconds or more; workers extend the lease of a running message "
                "automatically."
            ),
            id="dbqueue.W002",
        )
    first, last = merged["backoff"], merged["backoff_max"]
    if {"backoff", "backoff_max"} & used.keys() and last < first:
        yield checks.Warning(
            f"{place}: the first retry waits {first:g} seconds (backoff), but none may wait longer than {last:g} "
            "(backoff_max), so every retry waits that long.",
            hint="Make backoff_max larger than backoff, or both the same for equal delays.",
            id="dbqueue.W001",
        )
    limit, burst = merged["group_limit"], merged["group_burst"]
    if {"group_limit", "group_burst"} & used.keys() and burst is not None and burst <= limit:
        yield checks.Warning(
            f"{place}: group_burst is {burst}, but {limit} messages of a group may run at once anyway (group_limit), "
            "so it changes nothing.",
            hint="Make group_burst larger than group_limit, or leave it out.",
            id="dbqueue.W004",
        )


def _known(given: Mapping[object, object], kinds: Mapping[str, Kind], place: str) -> Iterator[checks.Error]:
    for name in given:
        if name in kinds:
            continue
        yield checks.Error(
            f"{place} has an unknown {'setting' if kinds is TOP_LEVEL_KINDS else 'option'}, {shown(name)}.",
            hint=_elsewhere(name, kinds) or f"{did_you_mean(name, kinds)}Valid names are {listed(kinds)}.",
            id="dbqueue.E002",
        )


def _read(
    given: Mapping[Any, object], kinds: Mapping[str, Kind], place: str
) -> tuple[dict[str, Any], list[checks.CheckMessage]]:
    """Return those values that can be, as they are used, and what is wrong with the others."""
    used: dict[str, Any] = {}
    wrong: list[checks.CheckMessage] = []
    for name, kind in kinds.items():
        if name not in given:
            continue
        try:
            used[name] = fitted(kind, given[name], f"{place}['{name}']")
        except InvalidMessage as error:
            hint = f"Change it, or leave it out{_default_of(name)}."
            wrong.append(checks.Error(str(error), hint=hint, id="dbqueue.E003"))
    return used, wrong


def _default_of(name: str) -> str:
    default = {**conf.TOP_LEVEL, **conf.PER_QUEUE}[name]
    return "" if default == {} else f" for the default, {default!r}"


def _elsewhere(name: object, kinds: Mapping[str, Kind]) -> str:
    if kinds is TOP_LEVEL_KINDS:
        where = "put it into 'DEFAULTS', or into 'QUEUES' under a queue's name."
        return f"{name} is an option of queues: {where}" if name in PER_QUEUE_KINDS else ""
    if name in TOP_LEVEL_KINDS:
        return f"{name} applies to all queues: put it one level up, into {conf.NAME} itself."
    why = why_not(SetIn.QUEUE, name)
    return f"No queue has it: {why}." if why else ""
