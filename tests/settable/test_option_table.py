"""Each option in each place: it is used as the table says, refused with one sentence, or not taken, and then why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from django_dbqueue import conf
from django_dbqueue.consumers.registry import ConsumerOptions, consumer
from django_dbqueue.settable.kinds import fitted
from django_dbqueue.settable.option_table import OPTIONS, OPTIONS_OF, Option, SetIn, read_options, why_not
from django_dbqueue.tasks import DBQueueBackend, DBQueueTask, task_options
from django_dbqueue.tasks.backend_checks import check_backend
from django_dbqueue.tasks.compat import InvalidTask, Task
from django_dbqueue.tasks.options import NAMES, TaskKeywords, options_of, schedule_of

BACKEND: Final = {"default": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "QUEUES": []}}
MINUTE: Final = timedelta(minutes=1)
LENGTHS: Final = {MINUTE: 60.0, 5: 5.0}
BRIEF: Final = {timedelta(seconds=1.5): 1.5, 0: 0.0}
GOOD: Final[dict[str, dict[Any, Any]]] = {
    "lease": LENGTHS,
    "timeout": LENGTHS,
    "retention": LENGTHS,
    "dead_retention": LENGTHS,
    "history_retention": LENGTHS,
    "backoff_max": LENGTHS,
    "backoff": BRIEF,
    "keep_results": BRIEF,
    "batch_wait": BRIEF,
    "max_reads": {0: 0, 7: 7},
    "max_attempts": {0: 0, 7: 7},
    "priority": {-100: -100},
    "on_ack": {"delete": "delete"},
    "on_dead": {"hold": "hold"},
    "transactional": {True: True},
    "interruptible": {False: False},
    "group_limit": {10_000: 10_000},
    "group_batch": {900: 900},
    "group_rate": {"10/s": "10/s", None: None},
    "group_burst": {64: 64},
    "batch": {900: 900},
    "resource": {print: print},
    "cron": {"0 3 * * *": "0 3 * * *"},
    "timezone": {"Europe/Berlin": "Europe/Berlin"},
    "missed": {"skip": "skip"},
}
"""What can be, and as what it is used."""
OF_TASKS: Final[dict[str, dict[Any, Any]]] = {"backoff": {max: max}, "group": {"ann": "ann", print: print}}
OF_QUEUES: Final[dict[str, dict[Any, Any]]] = {"group": {"*": "*"}}
NO_LENGTH: Final = ("soon", False, -1, timedelta(-1), float("nan"), float("inf"), 10**12, 10**400)
NO_NUMBER: Final = ("5", True, 1.5, -101, 10**12)
BAD: Final[dict[str, tuple[Any, ...]]] = {
    "lease": (*NO_LENGTH, 0, timedelta(0)),
    "timeout": (*NO_LENGTH, 0, timedelta(0)),
    "backoff": NO_LENGTH,
    "backoff_max": NO_LENGTH,
    "retention": NO_LENGTH,
    "dead_retention": NO_LENGTH,
    "history_retention": NO_LENGTH,
    "keep_results": NO_LENGTH,
    "batch_wait": NO_LENGTH,
    "max_reads": NO_NUMBER,
    "max_attempts": NO_NUMBER,
    "priority": NO_NUMBER,
    "batch": NO_NUMBER,
    "group_limit": NO_NUMBER,
    "group_batch": NO_NUMBER,
    "group_burst": NO_NUMBER,
    "on_ack": ("remove", 1),
    "on_dead": ("stop", 1),
    "transactional": ("yes", 1),
    "interruptible": ("yes", 1),
    "group_rate": ("10/d", 10),
    "group": ("", 17),
}


def made(**options: Any) -> Any:
    """A task with these options."""
    return task_options(**options)(DBQueueTask(func=_job()))


def _job() -> Callable[[], None]:
    namespace: dict[str, Any] = {"__name__": __name__}
    exec("def job(): ...", namespace)  # a function of its own, at the level of a module
    job: Callable[[], None] = namespace["job"]
    return job


def of_consumer(name: str, value: Any) -> Any:
    needed = {"timezone": {"cron": "* * * * *"}, "missed": {"cron": "* * * * *"}, "batch_wait": {"batch": 2}}
    more: dict[str, Any] = needed.get(name, {})

    async def take_shared(message: Any, shared: Any) -> None: ...

    registered: list[Any] = []
    handler: Any = take_shared if name == "resource" else lambda message: registered.append(message)
    consumer("q", **more, **{name: value})(handler)
    from django_dbqueue.consumers import registry

    new = registry.functions()["q"]
    if name in OPTIONS_OF[SetIn.SCHEDULE]:
        assert new.schedule is not None
        return new.schedule[name]
    return getattr(new.resolved() if name in OPTIONS_OF[SetIn.QUEUE] else new, name)


def of_task(name: str, value: Any) -> Any:
    more: dict[str, Any] = {"cron": "* * * * *"} if name in ("timezone", "missed") else {}
    found = [_used_by_task(task, name) for task in (made(**more, **{name: value}), keywords(**more, **{name: value}))]
    assert found[0] == found[1], "@task_options and the keyword of @task"
    return found[0]


def keywords(**options: Any) -> Any:
    """A task as ``@task`` makes it where it takes keywords."""
    return DBQueueTask(func=_job(), **options)


def _used_by_task(task: Any, name: str) -> Any:
    if name in OPTIONS_OF[SetIn.SCHEDULE]:
        schedule = schedule_of(task)
        assert schedule is not None
        return schedule[name]
    return getattr(options_of(task, {}), name)


def of_backend(name: str, value: Any) -> Any:
    return getattr(options_of(made(), {name: value}), name)


def of_queue(name: str, value: Any) -> Any:
    found = []
    for dbqueue in ({"DEFAULTS": {name: value}}, {"QUEUES": {"q": {name: value}}}):
        with override_settings(DBQUEUE=dbqueue):
            assert [each for each in run_checks() if each.is_serious()] == []
            found.append(getattr(conf.queue_options("q"), name))
    assert found[0] == found[1]
    return found[0]


USED: Final = {SetIn.CONSUMER: of_consumer, SetIn.TASK: of_task, SetIn.BACKEND: of_backend, SetIn.QUEUE: of_queue}


def sentences_of(place: SetIn, name: str, value: Any) -> set[str]:
    """What the place says of a value, from the option's name on."""
    found: list[str] = []
    if place is SetIn.CONSUMER:
        with pytest.raises((ValueError, TypeError)) as raised:
            consumer("q", **{name: value})
        found = [str(raised.value).replace(" of the consumer of 'q'", "")]
    elif place is SetIn.TASK:
        for make in (made, keywords):
            with pytest.raises((InvalidTask, TypeError)) as raised_by_task:
                make(**{name: value})
            found.append(str(raised_by_task.value))
    elif place is SetIn.BACKEND:
        backend: Any = DBQueueBackend("default", {"OPTIONS": {name: value}})
        [error] = check_backend(backend)
        assert error.id == "dbqueue.E021"
        found = [str(error.msg)]
    else:
        for dbqueue in ({"DEFAULTS": {name: value}}, {"QUEUES": {"q": {name: value}}}):
            with override_settings(DBQUEUE=dbqueue):
                [wrong] = [each for each in run_checks() if each.is_serious()]
            assert wrong.id in ("dbqueue.E002", "dbqueue.E003")
            found.append(f"{wrong.msg} {wrong.hint if wrong.id == 'dbqueue.E002' else ''}")
    return {_from_the_name_on(each, name) for each in found}


def _from_the_name_on(sentence: str, name: str) -> str:
    return sentence[sentence.index(name) + len(name) :].removeprefix("']").strip()


@pytest.fixture(autouse=True)
def _tasks(settings: Any, registry: dict[str, Any]) -> None:
    settings.TASKS = BACKEND


@pytest.mark.parametrize("option", OPTIONS, ids=lambda each: each.name)
def test_a_good_value_is_used_alike_in_each_place_that_takes_it(option: Option) -> None:
    for place in USED.keys() & set(option.places):
        particular = OF_QUEUES if place is SetIn.QUEUE else OF_TASKS if place in (SetIn.TASK, SetIn.BACKEND) else {}
        values = GOOD.get(option.name, {}) | particular.get(option.name, {})
        assert values, f"nothing is known of {option.name}"
        for value, used in values.items():
            found = USED[place](option.name, value)
            assert found == used, (place, value)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_refused_with_one_sentence_in_each_place_that_takes_it(name: str) -> None:
    for option in [each for each in OPTIONS if each.name == name]:
        for value in BAD[name]:
            found = {place: sentences_of(place, name, value) for place in USED if place in option.places}
            [sentence] = set().union(*found.values())
            assert sentence.startswith(("must be ", ": The group")), found


def test_every_option_is_tried_with_a_bad_value_or_has_tests_of_its_own() -> None:
    assert {each.name for each in OPTIONS} - BAD.keys() == {"resource", *OPTIONS_OF[SetIn.SCHEDULE]}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cron": "every day"}, "'every day' is not a cron expression"),
        ({"cron": "0 25 * * *"}, "Bad hour"),
        ({"cron": "* * * * *", "timezone": "Mars/Olympus"}, "There is no time zone 'Mars/Olympus'"),
        ({"cron": "* * * * *", "missed": "twice"}, "missed must be one of latest, all, skip, not 'twice'"),
        ({"timezone": "UTC"}, "sets timezone or missed, but no cron for them"),
        ({"missed": "all"}, "sets timezone or missed, but no cron for them"),
    ],
)
def test_a_schedule_is_refused_with_one_sentence_by_consumers_and_tasks(options: dict[str, Any], sentence: str) -> None:
    for make in (lambda **given: consumer("q", **given), made, keywords):
        with pytest.raises((ValueError, InvalidTask), match=sentence):
            make(**options)


@pytest.mark.parametrize("name", sorted({each.name for each in OPTIONS}))
def test_a_place_that_cannot_take_an_option_gives_the_reason(name: str) -> None:
    for place in USED:
        if name in OPTIONS_OF[place] or (place is SetIn.CONSUMER and name == "queue"):
            continue
        if place is SetIn.TASK and name == "priority":  # Django's own keyword
            with pytest.raises(InvalidTask, match=r"`@task` has Django's own `priority`"):
                task_options(**{name: 1})
            continue
        why = why_not(place, name)
        assert why
        for sentence in sentences_of(place, name, 1):
            assert why in sentence, place


@pytest.mark.parametrize("place", USED)
def test_a_name_that_no_place_knows_is_an_error_that_lists_what_there_is(place: SetIn) -> None:
    for sentence in sentences_of(place, "colour", "red"):
        assert ", ".join(sorted(OPTIONS_OF[place])) in sentence


def test_defaults_are_of_their_kind() -> None:
    for each in OPTIONS:
        unset = each.default is None and (each.of_queue or each.shown or each.name in ("batch", "key"))
        assert unset or fitted(each.kind, each.default, each.name) == each.default, each.name


def test_none_leaves_an_option_to_others_in_decorators() -> None:
    nothing = {name: None for name in OPTIONS_OF[SetIn.CONSUMER] if name not in ("transactional", "interruptible")}
    consumer("q", **nothing)(print)
    from django_dbqueue.consumers import registry

    assert registry.functions()["q"].options == {}
    assert read_options(SetIn.TASK, {"keep_results": None, "max_attempts": None}) == {}


def test_what_is_typed_is_what_the_table_has() -> None:
    own = {each.name for each in fields(DBQueueTask)} - {each.name for each in fields(Task)} - {"call_options"}
    assert own == TaskKeywords.__annotations__.keys() == OPTIONS_OF[SetIn.TASK].keys()
    assert set(NAMES) == OPTIONS_OF[SetIn.BACKEND].keys()
    assert ConsumerOptions.__annotations__.keys() == OPTIONS_OF[SetIn.CONSUMER].keys()
    assert {each.name for each in fields(conf.QueueOptions)} == OPTIONS_OF[SetIn.QUEUE].keys()


def test_each_option_that_some_place_lacks_has_a_reason() -> None:
    for name in {each.name for each in OPTIONS}:
        alike = [each for each in OPTIONS if each.name == name]
        lacking = [place for place in USED if not any(place in each.places for each in alike)]
        assert all(why_not(place, name) for place in lacking), name
