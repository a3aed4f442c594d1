from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.test import override_settings

from django_dbqueue import conf
from django_dbqueue.checks import blocking_errors
from django_dbqueue.checks.settings_checks import TOP_LEVEL_KINDS, check_settings
from django_dbqueue.settable.kinds import fitted


def messages_of(dbqueue: Any) -> list[CheckMessage]:
    with override_settings(DBQUEUE=dbqueue):
        return [message for message in run_checks() if message.id.startswith("dbqueue.")]


def only(messages: list[CheckMessage]) -> CheckMessage:
    assert len(messages) == 1, messages
    assert messages[0].hint
    return messages[0]


def test_every_setting_has_a_kind_that_its_default_is_of() -> None:
    assert TOP_LEVEL_KINDS.keys() == conf.TOP_LEVEL.keys()
    for name, default in conf.TOP_LEVEL.items():
        assert fitted(TOP_LEVEL_KINDS[name], default, name) == default


@pytest.mark.parametrize(
    "dbqueue",
    [
        {},
        {"DATABASE": None},
        {"DATABASE": "default", "DEFAULTS": {}, "QUEUES": {}, "MAX_PAYLOAD_BYTES": 1, "NOTIFY": False},
        {"DEFAULTS": {"dead_retention": 0, "on_ack": "delete"}, "QUEUES": {"a": {"on_ack": "keep"}}},
        {"DEFAULTS": {"group_limit": 10_000, "on_dead": "hold"}, "QUEUES": {"a": {"group": "*", "group_batch": 20}}},
        {"DEFAULTS": {"group": None, "group_limit": 1, "group_batch": 1, "on_dead": "next"}},
        {"DEFAULTS": {"lease": 3, "max_reads": 0, "priority": -100, "retention": 0, "timeout": None}},
        {"QUEUES": {"e.mails:1-a_b": {"timeout": 0.5, "backoff": 0, "backoff_max": 0, "priority": 100}}},
    ],
)
def test_good_settings_report_nothing(dbqueue: dict[str, Any]) -> None:
    assert messages_of(dbqueue) == []


def test_no_settings_at_all_report_nothing(settings: Any) -> None:
    del settings.DBQUEUE
    assert check_settings() == []


@pytest.mark.parametrize("dbqueue", [None, 0, "", "default", [], [("DATABASE", "default")], object(), dict])
def test_settings_that_are_no_dict_are_one_error(dbqueue: Any) -> None:
    assert only(messages_of(dbqueue)).id == "dbqueue.E001"


@pytest.mark.parametrize(
    ("dbqueue", "place", "hint"),
    [
        ({"DATABASES": "default"}, "DBQUEUE has an unknown setting, 'DATABASES'", "Did you mean 'DATABASE'?"),
        ({"database": "default"}, "'database'", "Did you mean 'DATABASE'?"),
        ({"MAX_PAYLOAD": 5}, "'MAX_PAYLOAD'", "Did you mean 'MAX_PAYLOAD_BYTES'?"),
        ({"lease": 60}, "'lease'", "put it into 'DEFAULTS'"),
        (
            {"DEFAULTS": {"max_read": 5}},
            "DBQUEUE['DEFAULTS'] has an unknown option",
            "Did you mean 'max_reads'?",
        ),
        ({"DEFAULTS": {"NOTIFY": True}}, "'NOTIFY'", "one level up"),
        ({"QUEUES": {"a": {"LEASE": 5}}}, "DBQUEUE['QUEUES']['a'] has an unknown", "Did you mean 'lease'?"),
        ({"QUEUES": {"a": {"zzz": 5}}}, "'zzz'", "Valid names are backoff, backoff_max, dead_retention"),
        ({7: 8}, "7", "Valid names are CONCURRENCY, DATABASE"),
        ({None: 8}, "None", "Valid names are CONCURRENCY, DATABASE"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_what_was_meant(dbqueue: dict[Any, Any], place: str, hint: str) -> None:
    message = only(messages_of(dbqueue))
    assert message.id == "dbqueue.E002"
    assert place in message.msg
    assert hint in message.hint


_NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lease", [0, -1, "60", None, True, _NAN, float("inf"), 10**12, [60], 10**400]),
        ("max_reads", [-1, 2.0, "5", None, True, 10**12]),
        ("priority", [-101, 101, 0.5, "0", None, False]),
        ("retention", [-1, "7 days", None, _NAN]),
        ("dead_retention", [-1, "never", True, _NAN]),
        ("on_ack", ["Delete", "remove", "", None, True, ["keep"], {}, b"keep"]),
        ("timeout", [0, -1, "1", _NAN, False]),
        ("backoff", [-0.1, None, "2", float("inf")]),
        ("backoff_max", [-1, None, object()]),
        ("group", ["customers", "", 1, True, ["*"], b"*"]),
        ("group_limit", [0, -1, 10_001, 1.5, "4", None, True]),
        ("group_batch", [0, 10_001, "20", None, False]),
        ("on_dead", ["Hold", "stop", None, 0, ["next"]]),
    ],
)
def test_a_wrong_option_is_an_error_that_names_its_place(name: str, values: list[Any]) -> None:
    for value in values:
        for dbqueue, place in (
            ({"DEFAULTS": {name: value}}, "DBQUEUE['DEFAULTS']"),
            ({"QUEUES": {"emails": {name: value}}}, "DBQUEUE['QUEUES']['emails']"),
        ):
            message = only(messages_of(dbqueue))
            assert message.id == "dbqueue.E003"
            assert message.msg.startswith(f"{place}['{name}'] must be ")
            assert "for the default" in message.hint


@pytest.mark.parametrize(
    "dbqueue",
    [
        {"DATABASE": 5},
        {"DATABASE": ["default"]},
        {"DEFAULTS": None},
        {"DEFAULTS": [("lease", 5)]},
        {"QUEUES": ["emails"]},
        {"QUEUES": {"emails": None}},
        {"QUEUES": {"emails": 60}},
        {"MAX_PAYLOAD_BYTES": "1 MiB"},
        {"MAX_PAYLOAD_BYTES": 0},
        {"CONCURRENCY": 0},
        {"CONCURRENCY": "100"},
        {"CONCURRENCY": 10_001},
        {"MAX_PAYLOAD_BYTES": 1e6},
        {"NOTIFY": "no"},
    ],
)
def test_a_wrong_setting_is_an_error(dbqueue: dict[str, Any]) -> None:
    assert only(messages_of(dbqueue)).id == "dbqueue.E003"


@pytest.mark.parametrize("name", ["", " a", "a b", "ä", "-a", "a" * 65, "a\n", 5, None, b"a", ("a",)])
def test_a_name_that_no_queue_can_have_is_an_error(name: Any) -> None:
    message = only(messages_of({"QUEUES": {name: {}}}))
    assert message.id == "dbqueue.E004"
    assert len(message.msg) < 200


def test_a_database_that_is_not_in_databases_is_an_error_that_names_what_was_meant() -> None:
    message = only(messages_of({"DATABASE": "defautl"}))
    assert message.id == "dbqueue.E005"
    assert "Did you mean 'default'?" in message.hint


def test_a_first_backoff_longer_than_the_longest_is_warned_of() -> None:
    assert only(messages_of({"DEFAULTS": {"backoff": 60, "backoff_max": 30}})).id == "dbqueue.W001"
    inherited = {"DEFAULTS": {"backoff": 60}, "QUEUES": {"a": {"backoff_max": 30}, "b": {"lease": 30}}}
    message = only(messages_of(inherited))
    assert message.id == "dbqueue.W001"
    assert "['a']" in message.msg


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group_rate": "10/d"}, '"10/s", "100/m" or "5000/h"'),
        ({"group_rate": 10}, "or None, not 10"),
        ({"group_burst": 0}, "from 1 to 10,000, or None"),
        ({"group_batch": 901}, "from 1 to 900"),
        ({"group_limit": 0}, "from 1 to 10,000"),
        ({"group": "a"}, "'*', which makes all messages"),
        ({"on_dead": "stop"}, "'next' or 'hold'"),
    ],
)
def test_an_option_of_groups_that_can_not_be_names_what_it_must_be(options: dict[str, Any], words: str) -> None:
    message = only(messages_of({"QUEUES": {"a": options}}))
    assert message.id == "dbqueue.E003"
    assert words in message.msg


def test_a_burst_that_is_no_larger_than_the_limit_is_warned_of() -> None:
    message = only(messages_of({"DEFAULTS": {"group_limit": 8}, "QUEUES": {"a": {"group_burst": 8}}}))
    assert message.id == "dbqueue.W004"
    assert "['a']" in message.msg
    assert messages_of({"QUEUES": {"a": {"group_limit": 4, "group_burst": 8, "group_rate": "10/s"}}}) == []


def test_a_lease_too_short_to_be_extended_is_warned_of() -> None:
    assert only(messages_of({"QUEUES": {"a": {"lease": 1}}})).id == "dbqueue.W002"


def test_each_mistake_is_reported_at_once() -> None:
    found = messages_of({"DATABASE": "x", "Y": 1, "DEFAULTS": {"lease": 0, "z": 1}, "QUEUES": {"": 5}})
    assert sorted(message.id[-4:] for message in found) == ["E002", "E002", "E003", "E003", "E004", "E005"]


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_a_value_that_can_not_be_shown_is_still_an_error() -> None:
    assert only(messages_of({"DEFAULTS": {"lease": Unspeakable()}})).id == "dbqueue.E003"
    assert only(messages_of(Unspeakable())).id == "dbqueue.E001"


@pytest.mark.django_db
def test_errors_of_settings_forbid_a_worker_and_silenced_ones_do_not() -> None:
    with override_settings(DBQUEUE={"DEFAULTS": {"leese": 5, "lease": 1}}):
        assert [message.id for message in blocking_errors("default")] == ["dbqueue.E002"]
        with override_settings(SILENCED_SYSTEM_CHECKS=["dbqueue.E002"]):
            assert blocking_errors("default") == []
