"""How schedules are declared, by the settings and by consumers, and what is refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_dbqueue import InvalidSchedule, SchedulesNotInstalled, consumer
from django_dbqueue.consumers import registry as consumer_registry
from django_dbqueue.schedules import declarations

NIGHTLY = {"queue": "reports", "cron": "0 3 * * *"}


def messages_of(declared: Any) -> list[CheckMessage]:
    with override_settings(DBQUEUE={"SCHEDULES": declared}):
        return [message for message in run_checks() if message.id and message.id.startswith("dbqueue.")]


@pytest.fixture
def without_cronsim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)


def test_good_schedules_report_nothing_and_are_read_as_they_are_written() -> None:
    full = NIGHTLY | {"timezone": "Europe/Berlin", "missed": "all", "payload": ["x"], "key": "one at a time"}
    assert messages_of({"nightly": NIGHTLY, "full": full}) == []
    with override_settings(DBQUEUE={"SCHEDULES": {"nightly": NIGHTLY, "full": full}}, TIME_ZONE="Asia/Tokyo"):
        plain, rich = declarations.of_settings()
    assert (plain.name, plain.queue, plain.missed, plain.payload, plain.key) == (
        "nightly",
        "reports",
        "latest",
        {},
        None,
    )
    assert (plain.cron.expression, plain.cron.timezone) == ("0 3 * * *", "Asia/Tokyo")
    assert (rich.missed, rich.payload, rich.key, rich.cron.timezone) == ("all", ["x"], "one at a time", "Europe/Berlin")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("nightly", None, "must be a dict of options"),
        ("nightly", {"cron": "0 3 * * *"}, "needs the option 'queue'"),
        ("nightly", {"queue": "reports"}, "needs the option 'cron'"),
        ("nightly", NIGHTLY | {"time_zone": "UTC"}, "unknown option, 'time_zone'. Did you mean 'timezone'?"),
        ("nightly", NIGHTLY | {7: 8}, "unknown option, 7"),
        ("nightly", NIGHTLY | {"cron": "0 25 * * *"}, "Bad hour"),
        ("nightly", NIGHTLY | {"timezone": "Europe/Berlni"}, "Did you mean 'Europe/Berlin'?"),
        ("nightly", NIGHTLY | {"timezone": 1}, "no time zone 1"),
        ("nightly", NIGHTLY | {"missed": "never"}, "missed must be one of latest, all, skip"),
        ("nightly", NIGHTLY | {"missed": []}, "missed must be one of"),
        ("nightly", NIGHTLY | {"queue": "no queue"}, "'no queue' is not a queue name"),
        ("nightly", NIGHTLY | {"payload": float("nan")}, "NaN"),
        ("nightly", NIGHTLY | {"payload": "x" * 2_000_000}, "1,048,576"),
        ("nightly", NIGHTLY | {"key": ""}, "The key has 0 characters"),
        ("every night", NIGHTLY, "'every night' is not a queue name"),
        (None, NIGHTLY, "None is not a queue name"),
    ],
)
def test_a_schedule_that_can_not_be_is_an_error_with_its_place(name: Any, options: Any, words: str) -> None:
    [message] = messages_of({"good": NIGHTLY, name: options})
    assert message.id == "dbqueue.E006"
    assert message.msg.startswith(f"DBQUEUE['SCHEDULES'][{name!r}] is not a valid schedule.")
    assert words in message.msg
    assert message.hint
    with override_settings(DBQUEUE={"SCHEDULES": {name: options}}), pytest.raises(InvalidSchedule, match="SCHEDULES"):
        declarations.of_settings()


@pytest.mark.parametrize("declared", [None, [], "nightly", 3])
def test_schedules_that_are_no_dict_are_an_error(declared: Any) -> None:
    [message] = messages_of(declared)
    assert message.id == "dbqueue.E003"


@pytest.mark.usefixtures("without_cronsim")
def test_a_schedule_without_the_library_is_one_error_that_names_what_to_install() -> None:
    [message] = messages_of({"nightly": NIGHTLY, "hourly": NIGHTLY})
    assert message.id == "dbqueue.E007"
    assert "pip install 'django-dbqueue[schedules]'" in message.msg
    assert messages_of({}) == []


@pytest.mark.django_db
@pytest.mark.usefixtures("without_cronsim")
def test_a_worker_without_the_library_refuses_to_start_for_a_consumers_cron(registry: dict[str, Any]) -> None:
    @consumer("reports", cron="0 3 * * *")
    def report(message: Any) -> None: ...

    with pytest.raises(SchedulesNotInstalled):
        consumer_registry.plans()
    with pytest.raises(CommandError, match="django-dbqueue\\[schedules\\]"):
        call_command("run_queue_worker", "--drain", "--max-messages", "1")


def test_a_consumers_cron_is_a_schedule_with_its_queues_name(registry: dict[str, Any]) -> None:
    @consumer("reports", cron=" 0 3  * * *", timezone="Europe/Berlin", missed="skip")
    def report(message: Any) -> None: ...

    @consumer("emails")
    def send(message: Any) -> None: ...

    with override_settings(DBQUEUE={"SCHEDULES": {"nightly": NIGHTLY}}):
        by_settings, by_consumer = consumer_registry.plans()
    assert by_settings.name == "nightly"
    assert (by_consumer.name, by_consumer.queue, by_consumer.payload) == ("reports", "reports", {})
    assert (by_consumer.cron.expression, by_consumer.cron.timezone) == ("0 3 * * *", "Europe/Berlin")
    assert (by_consumer.missed, by_consumer.key) == ("skip", None)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"cron": "every day"}, "is not a cron expression"),
        ({"cron": "* * * * *", "timezone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"cron": "* * * * *", "missed": "twice"}, "missed must be one of"),
        ({"timezone": "UTC"}, "but no cron for them"),
        ({"missed": "skip"}, "but no cron for them"),
    ],
)
def test_a_decorator_with_what_can_not_be_is_refused_where_it_stands(
    options: dict[str, Any], error: str, registry: dict[str, Any]
) -> None:
    with pytest.raises(InvalidSchedule, match=error):
        consumer("reports", **options)
    assert registry == {}


def test_two_schedules_of_one_name_are_refused_with_both_places(registry: dict[str, Any]) -> None:
    @consumer("nightly", cron="0 4 * * *")
    def report(message: Any) -> None: ...

    with (
        override_settings(DBQUEUE={"SCHEDULES": {"nightly": NIGHTLY}}),
        pytest.raises(InvalidSchedule, match=r"Two schedules are named 'nightly'.*report.*another name"),
    ):
        consumer_registry.plans()
