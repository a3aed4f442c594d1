"""The options, each said once: what it must be, where it may be set, what holds otherwise, and what it does.

The tables of docs/settings.md and docs/tasks.md are made of it (``bin/docs --write``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final

from django_dbqueue.envelope import MAX_READS_LIMIT, check_group
from django_dbqueue.settable.kinds import (
    ANYTHING,
    WHOLE,
    YES_OR_NO,
    Kind,
    fitted,
    one_of,
    or_function,
    or_none,
    rate,
    seconds,
    whole,
)

WIDEST: Final = 10_000
"""How many messages of a group may run at once at most."""
MOST_IN_A_ROW: Final = 900
"""How many of a group a worker takes at once at most (``group_batch``): as many as one statement settles."""
MAX_BATCH: Final = 900
"""Messages of one call: as many as one statement settles."""
DAY: Final = 86_400.0


class SetIn(Enum):
    """Where options are set."""

    CONSUMER = "@consumer"
    TASK = "@task, @task_options"
    BACKEND = 'TASKS[…]["OPTIONS"]'
    QUEUE = "QUEUES, DEFAULTS"
    SCHEDULE = "SCHEDULES"


@dataclass(frozen=True, slots=True)
class Option:
    """An option, as one or several places have it. ``meaning``, ``why_not`` and ``shown`` are Markdown."""

    name: str
    places: tuple[SetIn, ...]
    kind: Kind
    default: object
    meaning: str
    why_not: str = ""
    """Why the other places can't take it."""
    of_queue: str = ""
    """The option of its queue that comes before the one of a backend of tasks, and holds where neither is set."""
    shown: str = ""
    """Its default, if it isn't the value in ``default``."""


_FUNCTIONS: Final = (SetIn.CONSUMER, SetIn.TASK)
_TASKS: Final = (SetIn.TASK, SetIn.BACKEND)
_QUEUES: Final = (SetIn.CONSUMER, SetIn.QUEUE)
_ALL: Final = (*_FUNCTIONS, SetIn.BACKEND, SetIn.QUEUE)
_TIMED: Final = (*_FUNCTIONS, SetIn.SCHEDULE)

_OF_ALL_MESSAGES: Final = "it holds for all messages of a queue, whoever sends, claims or ends them"
_ONE_SCHEDULE: Final = "a schedule is of one function, or stands in `SCHEDULES`: a queue and a backend have many tasks"
_ONE_CALL: Final = "it is about how messages come to the function of a consumer; a task is called once for each message"
_SCHEDULES: Final = "only `SCHEDULES` sets it: a consumer gets `{}` by its `cron`, and a task its own defaults"

OPTIONS: Final = (
    Option(
        "lease", _ALL, seconds(above_zero=True), 60.0,
        "how long a claim lasts; the worker extends it at a third of its length while it holds the message",
        of_queue="lease",
    ),
    Option(
        "max_reads", _QUEUES, whole(0, MAX_READS_LIMIT), 5,
        "deliveries after which a failing message is dead; 0 means no limit",
        "of tasks it is called `max_attempts`",
    ),
    Option(
        "max_attempts", _TASKS, whole(0, MAX_READS_LIMIT), None,
        "deliveries until the task is `FAILED`; 0 means no limit",
        "of consumers and queues it is called `max_reads`",
        of_queue="max_reads",
    ),
    Option(
        "priority", (SetIn.QUEUE,), whole(-100, 100), 0, "for messages that don't specify one",
        "a message has it before any function is known: give it to `enqueue()`; `@task` has Django's own `priority`",
    ),
    Option(
        "retention", (SetIn.QUEUE,), seconds(), 7 * DAY, "age at which workers move done rows into the history",
        _OF_ALL_MESSAGES,
    ),
    Option(
        "dead_retention", (SetIn.QUEUE,), or_none(seconds()), None,
        "the same for dead rows; `None`: they stay until an operator requeues or purges them",
        _OF_ALL_MESSAGES,
    ),
    Option(
        "history_retention", (SetIn.QUEUE,), or_none(seconds()), None,
        "age at which workers delete rows of the history; `None`: they stay, [see below](#history_retention)",
        _OF_ALL_MESSAGES,
    ),
    Option(
        "on_ack", (SetIn.QUEUE,), one_of("keep", "delete"), "keep",
        'what becomes of an acked row: `"keep"`, or `"delete"`, [see below](#on_ack)',
        "`message.ack()` also runs where no function is known, and a message must end the same way whoever acks it",
    ),
    Option(
        "timeout", _ALL, or_none(seconds(above_zero=True)), None, "how long a consumer or a task may run",
        of_queue="timeout",
    ),
    Option(
        "interruptible", _ALL, YES_OR_NO, True,
        "whether a function that runs in a thread is interrupted when its message is cancelled, by an exception "
        "between any two of its lines, [or not](settings.md#interruptible)",
        of_queue="interruptible",
    ),
    Option(
        "backoff", _QUEUES, seconds(), 2.0,
        "wait before the first retry; doubled for each further one, then reduced at random by up to half",
    ),
    Option(
        "backoff", _TASKS, or_function(seconds()), None,
        "wait before the second attempt; doubled for each further one, then reduced at random by up to half. Or a "
        "function of the error and the result that returns it, or None: no more attempts",
        of_queue="backoff",
    ),
    Option(
        "backoff_max", _QUEUES, seconds(), 3_600.0, "the longest wait",
        "the one of its queue holds for a task too; only a `backoff` that is longer itself, or a function, exceeds it",
    ),
    Option(
        "transactional", (*_FUNCTIONS, SetIn.BACKEND), YES_OR_NO, False,
        "`True`: what the function writes in the queue's database, and the ack (with a task's result), are one commit "
        "([exactly once](quickstart.md#exactly-once)); not for an `async def` consumer",
        "it changes what the code of a function may do, so whoever writes that decides",
    ),
    Option(
        "keep_results", _TASKS, seconds(), 14 * DAY, "how long the return value is kept; 0: not at all",
        "only tasks have results",
    ),
    Option(
        "group", (SetIn.QUEUE,), WHOLE, None,
        '`"*"`: all messages of the queue are one group, and none can name another',
        "whoever sends a message names its group: `enqueue(group=…)`",
    ),
    Option(
        "group", _TASKS, or_function(check_group), None,
        "the group of its messages, or a function of the task's arguments that returns it, or None", shown="none",
    ),
    Option(
        "group_limit", (SetIn.QUEUE,), whole(1, WIDEST), 1,
        "how many messages of one group may run at once, from 1 to 10,000; 1 lets them run one after the other, in the "
        "order in which they were sent. `Group.objects.limit()` and [the console](console.md#groups) change it for a "
        "single group",
        _OF_ALL_MESSAGES,
    ),
    Option(
        "group_batch", (SetIn.QUEUE,), whole(1, MOST_IN_A_ROW), 1,
        "how many messages of a group a worker claims at once, to run them one after the other, from 1 to 900; "
        "[see below](#group_batch)",
        _OF_ALL_MESSAGES,
    ),
    Option(
        "group_rate", (SetIn.QUEUE,), or_none(rate), None,
        'how many messages of each group may start: `"10/s"`, `"100/m"` or `"5000/h"`; [see below](#group_rate). '
        "`Group.objects.rate()` and [the console](console.md#groups) change it for a single group",
        _OF_ALL_MESSAGES,
    ),
    Option(
        "group_burst", (SetIn.QUEUE,), or_none(whole(1, WIDEST)), None,
        "how many messages of a group may run at once, above `group_limit`, while workers have nothing else to do; "
        "[see below](#group_burst)",
        _OF_ALL_MESSAGES,
    ),
    Option(
        "on_dead", (SetIn.QUEUE,), one_of("next", "hold"), "next",
        'what a dead message means for its group: `"next"`: the next one runs; `"hold"`: the group waits until '
        "somebody requeues, drops or purges it",
        _OF_ALL_MESSAGES,
    ),
    Option(
        "resource", (SetIn.CONSUMER,), ANYTHING, None,
        "for `async def`: what makes a client, or whatever else the coroutines of a child "
        "[share](async.md#a-shared-client)",
        "it is an argument of the function of an async consumer; an async task has an event loop of its own, and "
        "shares no client",
    ),
    Option(
        "batch", (SetIn.CONSUMER,), whole(1, MAX_BATCH), None,
        "how many messages the function gets at once, in [a list](batches.md), up to 900", _ONE_CALL,
        shown="one, no list",
    ),
    Option(
        "batch_wait", (SetIn.CONSUMER,), seconds(most=60.0), 0.0,
        "seconds that a message waits for others to fill the list, up to 60", _ONE_CALL,
    ),
    Option("queue", (SetIn.SCHEDULE,), ANYTHING, None, "where the messages go", _SCHEDULES),
    Option(
        "cron", _TIMED, ANYTHING, None,
        "five fields: minute, hour, day of month, month, day of week; with six, the first is the second",
        _ONE_SCHEDULE,
    ),
    Option("timezone", _TIMED, ANYTHING, None, "the time zone of the expression", _ONE_SCHEDULE, shown="`TIME_ZONE`"),
    Option(
        "missed", _TIMED, one_of("latest", "all", "skip"), "latest",
        'what becomes of due times that passed while no worker ran: `"latest"`: the last of them is enqueued, once; '
        '`"all"`: each of the last 100; `"skip"`: none that is more than a minute past',
        _ONE_SCHEDULE,
    ),
    Option("payload", (SetIn.SCHEDULE,), ANYTHING, {}, "payload of every message", _SCHEDULES),
    Option(
        "key", (SetIn.SCHEDULE,), ANYTHING, None,
        "key of every message. While a message with it is live, a due time enqueues nothing, so runs don't overlap",
        _SCHEDULES,
    ),
)  # fmt: skip
OPTIONS_OF: Final[Mapping[SetIn, Mapping[str, Option]]] = {
    place: {each.name: each for each in OPTIONS if place in each.places} for place in SetIn
}
"""What each place takes, by name."""
REQUIRED: Final = ("queue", "cron")
"""What each of SCHEDULES must set."""


def defaults(place: SetIn) -> dict[str, Any]:
    """Return the options of a place with what holds where nothing is set."""
    return {name: each.default for name, each in OPTIONS_OF[place].items()}


def why_not(place: SetIn, name: object) -> str:
    """Return why a place can't take an option that another one takes; '' if none does."""
    return next(
        (each.why_not for each in OPTIONS if each.name == name and place not in each.places and each.why_not), ""
    )


def read_options(place: SetIn, given: Mapping[str, object], *, called: str = "", of: str = "") -> dict[str, Any]:
    """Return the options that a decorator or a backend sets, as they are used; None sets nothing.

    TypeError for one that the place doesn't take. What InvalidMessage calls one begins with ``called``, and ends with
    ``of``.
    """
    used: dict[str, Any] = {}
    for name, value in given.items():
        if (option := OPTIONS_OF[place].get(name)) is None:
            raise TypeError(refusal(place, name))
        if value is not None or option.kind is YES_OR_NO:
            used[name] = fitted(option.kind, value, f"{called}{name}{of}")
    return used


def refusal(place: SetIn, name: object) -> str:
    """Return the end of the sentence on an option that a place doesn't take."""
    why = why_not(place, name)
    return (
        f"has no option {name!r}: {why}."
        if why
        else f"has no option {name!r}; the options are {listed(OPTIONS_OF[place])}."
    )


def listed(names: Iterable[str]) -> str:
    """Return names as a sentence has them."""
    return ", ".join(sorted(names))


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the question which of the known names was meant, '' if none is near."""
    by_lower_case = {other.lower(): other for other in known}
    near = get_close_matches(str(name).lower()[:100], by_lower_case, n=1)
    return f"Did you mean {by_lower_case[near[0]]!r}? " if near else ""
