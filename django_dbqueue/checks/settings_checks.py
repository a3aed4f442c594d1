"""The settings dict ``DBQUEUE``: names, types and bounds. Nothing in it makes a check crash."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from django.conf import settings
from django.core import checks

from django_dbqueue import conf
from django_dbqueue.checks.group_options import GROUP_RULES, group_checks
from django_dbqueue.checks.rules import Rule, of_type, one_of, seconds, whole
from django_dbqueue.envelope import MAX_READS_LIMIT, QUEUE_NAME, check_queue
from django_dbqueue.exceptions import InvalidMessage, InvalidSchedule, SchedulesNotInstalled
from django_dbqueue.redaction import policy
from django_dbqueue.schedules import declarations

SHORTEST_LEASE: Final = 3.0
"""A lease is extended at a third of its length and workers beat once a second."""
_GIBIBYTE: Final = 1024**3
INSTALL: Final = "Install it, or declare no schedules. Where only workers have it, silence dbqueue.E007 elsewhere."


def _queue_name(value: object) -> str | None:
    return None if isinstance(value, str) and QUEUE_NAME.match(value) else "the name of a queue"


def _redaction(value: object) -> str | None:
    wanted = (
        "a list of dotted names ('card.number', 'users.*.email'), the dotted path of a callable, or a dict with "
        "'names' and 'callable' for both"
    )
    if isinstance(value, str):
        return None if "." in value else wanted
    names, path = value, None
    if isinstance(value, Mapping):
        if not value.keys() <= {"names", "callable"}:
            return wanted
        names, path = value.get("names", ()), value.get("callable")
    if not isinstance(names, list | tuple) or not all(_is_dotted_name(name) for name in names):
        return wanted
    return None if path is None or (isinstance(path, str) and "." in path) else wanted


def _is_dotted_name(name: object) -> bool:
    return isinstance(name, str) and all(name.split(".")) and name.split(".")[-1] != policy.DEEP


TOP_LEVEL_RULES: Final[dict[str, Rule]] = {
    "DATABASE": of_type((str, type(None)), "the alias of a database, as in DATABASES, or None"),
    "DEFAULTS": of_type(Mapping, "a dict of options"),
    "QUEUES": of_type(Mapping, "a dict from queue names to dicts of options"),
    "MAX_PAYLOAD_BYTES": whole(1, _GIBIBYTE),
    "CONCURRENCY": whole(1, conf.MAX_CONCURRENCY),
    "NOTIFY": of_type(bool, "True or False"),
    "REDACT": _redaction,
    "SCHEDULES": of_type(Mapping, "a dict from schedule names to dicts of options"),
    "SESSION_LOCKS": of_type(bool, "True or False"),
    "OPERATIONS_QUEUE": _queue_name,
    "EVENT_RETENTION": seconds(),
    "TRACE": of_type((bool, type(None)), "True, False, or None (if OpenTelemetry has a provider)"),
    "TRACE_AS_PARENT": of_type(bool, "True or False"),
    "LOG_RETRIES": one_of(conf.LINE, conf.TRACEBACK),
    "MONITOR_TOKEN": of_type((str, type(None)), "a long random text, or None"),
}
PER_QUEUE_RULES: Final[dict[str, Rule]] = {
    "lease": seconds(above_zero=True),
    "max_reads": whole(0, MAX_READS_LIMIT),
    "priority": whole(-100, 100),
    "retention": seconds(),
    "dead_retention": seconds(or_none=True),
    "history_retention": seconds(or_none=True),
    "on_ack": one_of(conf.KEEP, conf.DELETE),
    "timeout": seconds(above_zero=True, or_none=True),
    "backoff": seconds(),
    "backoff_max": seconds(),
    **GROUP_RULES,
}


def check_settings(**_: object) -> list[checks.CheckMessage]:
    """Check ``DBQUEUE`` as it is."""
    given = getattr(settings, conf.NAME, {})
    if not isinstance(given, Mapping):
        return [
            checks.Error(
                f"{conf.NAME} must be a dict, not {_brief(given)}.",
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
        f"{where} names the database {_brief(alias)}, which is not in DATABASES.",
        hint=f"{_did_you_mean(alias, settings.DATABASES)}DATABASES has {_listed(settings.DATABASES)}.",
        id="dbqueue.E005",
    )


def _top_level(given: Mapping[object, object]) -> Iterator[checks.CheckMessage]:
    yield from _known(given, TOP_LEVEL_RULES, conf.NAME)
    yield from _valid(given, TOP_LEVEL_RULES, conf.NAME)
    alias = given.get("DATABASE")
    if isinstance(alias, str) and alias not in settings.DATABASES:
        yield unknown_alias(alias, f"{conf.NAME}['DATABASE']")
    if "REDACT" in given and _redaction(given["REDACT"]) is None and (path := conf.redaction()[1]) is not None:
        yield from _hook(path)


def _hook(path: str) -> Iterator[checks.CheckMessage]:
    try:
        policy.load_hook(path)
    except Exception as error:  # a module may raise anything when it is imported
        yield checks.Error(
            f"{conf.NAME}['REDACT'] names the callable {_brief(path)}, which can't be imported "
            f"({type(error).__name__}: {error}), so no payload is shown.",
            hint="Name a function (queue, payload, headers) -> (payload, headers); put field names in a list.",
            id="dbqueue.E008",
        )


def _defaults(given: Mapping[object, object]) -> Iterator[checks.CheckMessage]:
    defaults = given.get("DEFAULTS", {})
    if isinstance(defaults, Mapping):
        yield from _options(defaults, f"{conf.NAME}['DEFAULTS']", conf.PER_QUEUE)


def _queues(given: Mapping[object, object]) -> Iterator[checks.CheckMessage]:
    queues = given.get("QUEUES", {})
    if not isinstance(queues, Mapping):
        return
    defaults = given.get("DEFAULTS", {})
    inherited = {**conf.PER_QUEUE, **defaults} if isinstance(defaults, Mapping) else conf.PER_QUEUE
    for queue, options in queues.items():
        place = f"{conf.NAME}['QUEUES'][{_brief(queue)}]"
        try:
            check_queue(queue)
        except InvalidMessage as error:
            yield checks.Error(
                f"{conf.NAME}['QUEUES'] has an invalid queue name: {_brief(queue)}.",
                hint=str(error) if isinstance(queue, str) and len(queue) < 100 else "Use 1 to 64 characters of text.",
                id="dbqueue.E004",
            )
        if isinstance(options, Mapping):
            yield from _options(options, place, inherited)
        else:
            yield checks.Error(
                f"{place} must be a dict of options, not {_brief(options)}.",
                hint=f"The options are {_listed(PER_QUEUE_RULES)}.",
                id="dbqueue.E003",
            )


def _schedules(given: Mapping[object, object]) -> Iterator[checks.CheckMessage]:
    declared = given.get("SCHEDULES", {})
    for name, options in declared.items() if isinstance(declared, Mapping) else ():
        place = f"{conf.NAME}['SCHEDULES'][{_brief(name)}]"
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
    yield from _known(options, PER_QUEUE_RULES, place)
    wrong = list(_valid(options, PER_QUEUE_RULES, place))
    yield from wrong
    if wrong:
        return
    lease = options.get("lease", SHORTEST_LEASE)
    if lease < SHORTEST_LEASE:
        yield checks.Warning(
            f"{place}['lease'] is {lease} seconds: a worker that is busy for a moment loses the lease, and the "
            "message is delivered again.",
            hint=(
                f"Use {SHORTEST_LEASE:.0f} seconds or more; workers extend the lease of a running message "
                "automatically."
            ),
            id="dbqueue.W002",
        )
    if {"backoff", "backoff_max"} & options.keys():
        yield from _growing({**inherited, **options}, place)
    yield from group_checks(options, {**inherited, **options}, place)


def _growing(merged: Mapping[str, Any], place: str) -> Iterator[checks.CheckMessage]:
    first, last = merged["backoff"], merged["backoff_max"]
    if any(PER_QUEUE_RULES["backoff"](value) for value in (first, last)):
        return  # an inherited value is wrong, and reported where it is set
    if last < first:
        yield checks.Warning(
            f"{place}: the first retry waits {first} seconds (backoff), but none may wait longer than {last} "
            "(backoff_max), so every retry waits that long.",
            hint="Make backoff_max larger than backoff, or both the same for equal delays.",
            id="dbqueue.W001",
        )


def _known(given: Mapping[object, object], rules: Mapping[str, Rule], place: str) -> Iterator[checks.Error]:
    for name in given:
        if name in rules:
            continue
        yield checks.Error(
            f"{place} has an unknown {'setting' if rules is TOP_LEVEL_RULES else 'option'}, {_brief(name)}.",
            hint=_elsewhere(name, rules) or f"{_did_you_mean(name, rules)}Valid names are {_listed(rules)}.",
            id="dbqueue.E002",
        )


def _valid(given: Mapping[object, object], rules: Mapping[str, Rule], place: str) -> Iterator[checks.Error]:
    for name, rule in rules.items():
        if name in given and (wanted := rule(given[name])):
            yield checks.Error(
                f"{place}['{name}'] must be {wanted}, not {_brief(given[name])}.",
                hint=f"Change it, or leave it out{_default_of(name)}.",
                id="dbqueue.E003",
            )


def _default_of(name: str) -> str:
    default = {**conf.TOP_LEVEL, **conf.PER_QUEUE}[name]
    return "" if default == {} else f" for the default, {default!r}"


def _elsewhere(name: object, rules: Mapping[str, Rule]) -> str:
    if rules is TOP_LEVEL_RULES and name in PER_QUEUE_RULES:
        return f"{name} is an option of queues: put it into 'DEFAULTS', or into 'QUEUES' under a queue's name."
    if rules is PER_QUEUE_RULES and name in TOP_LEVEL_RULES:
        return f"{name} applies to all queues: put it one level up, into {conf.NAME} itself."
    return ""


def _did_you_mean(name: object, known: Iterable[str]) -> str:
    by_lower_case = {other.lower(): other for other in known}
    near = get_close_matches(str(name).lower()[:100], by_lower_case, n=1)
    return f"Did you mean {by_lower_case[near[0]]!r}? " if near else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _brief(value: object) -> str:
    try:
        return reprlib.repr(value)
    except Exception:  # a settings file may hold anything, and its repr may raise anything
        return f"a {type(value).__name__}"
