"""What is redacted is in nothing that people are shown; what fails shows nothing."""

from __future__ import annotations

import json
import logging
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.checks import Error

from django_dbqueue.checks.settings_checks import check_settings
from django_dbqueue.redaction.masking import UNTOLD
from django_dbqueue.redaction.policy import MARK, content_of, is_redacting
from django_dbqueue.value_types import TYPES
from tests.redaction.contents import Row, raised, row, shown

# -- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "payload", "seen"),
    [
        ("card.number", {"card": {"number": 4111, "name": "A"}}, {"card": {"number": MARK, "name": "A"}}),
        ("card", {"card": {"number": 4111}, "n": 1}, {"card": MARK, "n": 1}),
        ("users.*.email", {"users": [{"email": "a"}, {"n": 1}]}, {"users": [{"email": MARK}, {"n": 1}]}),
        ("users.*.email", {"users": {"x": {"email": "a"}}}, {"users": {"x": {"email": MARK}}}),
        ("users.1", {"users": ["a", "b"]}, {"users": ["a", MARK]}),
        ("0.pin", [{"pin": 1}, {"pin": 2}], [{"pin": MARK}, {"pin": 2}]),
        ("*", {"a": 1, "b": None}, {"a": MARK, "b": MARK}),
        ("**.pin", {"pin": 1, "a": [{"b": {"pin": "x"}}]}, {"pin": MARK, "a": [{"b": {"pin": MARK}}]}),
        ("a.**.c", {"a": {"c": 1, "b": {"c": 2}}, "c": 3}, {"a": {"c": MARK, "b": {"c": MARK}}, "c": 3}),
        ("card.number", {"card.number": 4111}, {"card.number": MARK}),
        ("card.number", {"Card": {"NUMBER": 4111}}, {"Card": {"NUMBER": MARK}}),
        ("card.number", {"card": "4111", "number": 1}, {"card": "4111", "number": 1}),
        ("users.5.x", {"users": [1]}, {"users": [1]}),
        ("a.b", {"a": json.dumps({"b": 1})}, {"a": json.dumps({"b": MARK})}),
    ],
)  # fmt: skip
def test_a_name_leads_to_the_values_that_are_hidden(redact: Any, name: str, payload: Any, seen: Any) -> None:
    redact([name])
    assert content_of(row(payload)).payload == seen


def test_the_names_hold_for_headers_too(redact: Any) -> None:
    redact(["authorization", "trace.id"])
    content = content_of(row({}, {"Authorization": "Basic x", "trace.id": 1, "kept": 2}))
    assert content.headers == {"Authorization": MARK, "trace.id": MARK, "kept": 2}


@pytest.mark.parametrize("form", [lambda text: text, lambda text: text.encode()])
def test_text_and_bytes_that_hold_json_are_searched(redact: Any, form: Any) -> None:
    redact(["card.number"])
    text = json.dumps({"card": {"number": "4111-2222"}})
    content = content_of(row(form(text)))
    assert json.loads(content.payload) == {"card": {"number": MARK}}
    assert type(content.payload) is type(form(text))
    assert content_of(row(form("[no json"))).payload == form("[no json")
    assert "4111" not in shown(f"ValueError: {form(text)!r}", row(form(text)))


def test_nothing_is_redacted_unless_it_is_set(settings: Any) -> None:
    settings.DBQUEUE = {}
    assert not is_redacting()
    content = content_of(row({"password": "x"}, {"h": 1}))
    assert (content.payload, content.headers, content.hidden) == ({"password": "x"}, {"h": 1}, "")
    assert shown("ValueError: x", row({"password": "x"})) == "ValueError: x"


# -- the hook ---------------------------------------------------------------------------------------------


def last_four(queue: str, payload: Any, headers: dict[str, Any]) -> Any:
    payload["card"] = f"{queue} …{payload['card'][-4:]}"
    headers.pop("token", None)
    return payload, headers


calls: list[Any] = []


def counted(queue: str, payload: Any, headers: dict[str, Any]) -> Any:
    calls.append(payload)
    return {"n": 1}, headers


def raises(queue: str, payload: Any, headers: dict[str, Any]) -> Any:
    raise ValueError(f"can't read {payload}")


def returns_nothing(queue: str, payload: Any, headers: dict[str, Any]) -> Any:
    return None


def returns_no_headers(queue: str, payload: Any, headers: dict[str, Any]) -> Any:
    return payload, "secret"


def returns_what_is_no_json(queue: str, payload: Any, headers: dict[str, Any]) -> Any:
    return {"x": {1, 2}}, headers


def without_digits(queue: str, payload: Any, headers: dict[str, Any]) -> Any:
    return " ".join(word for word in payload.split() if not word.isdigit()), headers


def test_a_hook_decides_what_is_seen_and_errors_lose_what_it_took_out(redact: Any) -> None:
    redact(f"{__name__}.last_four")
    message = row({"card": "4111222233334444", "n": 1}, {"token": "t-0815", "kept": 1})
    content = content_of(message)
    assert content.payload == {"card": "q …4444", "n": 1}
    assert content.headers == {"kept": 1}
    assert shown("ValueError: 4111222233334444 by t-0815", message) == f"ValueError: {MARK} by {MARK}"


def test_names_go_before_the_hook(redact: Any) -> None:
    redact({"names": ["card"], "callable": f"{__name__}.last_four"})
    assert content_of(row({"card": "4111222233334444"})).payload == {"card": f"q …{MARK[-4:]}"}


def test_what_a_hook_took_out_of_a_text_is_masked(redact: Any) -> None:
    redact(f"{__name__}.without_digits")
    message = row("pay 4111222233334444 now please")
    assert content_of(message).payload == "pay now please"
    assert shown("ValueError: 4111222233334444, please pay", message) == f"ValueError: {MARK}, please pay"


@pytest.mark.parametrize("hook", ["raises", "returns_nothing", "returns_no_headers", "returns_what_is_no_json", "gone"])
def test_a_hook_that_fails_hides_all_and_reports_it(settings: Any, hook: str, caplog: pytest.LogCaptureFixture) -> None:
    settings.DBQUEUE = {"REDACT": f"{__name__}.{hook}"}
    message = row({"card": "hush"}, {"h": "hush"})
    with caplog.at_level(logging.WARNING, "django_dbqueue"):
        content = content_of(message)
    assert (content.payload, content.headers) == (None, None)
    assert f"{__name__}.{hook} failed" in content.hidden
    assert "hush" not in content.hidden + caplog.text
    assert shown(raised(LookupError("hush")), message).startswith(f"LookupError: {UNTOLD}")
    assert "hush" not in shown(raised(LookupError("hush")), message)


@pytest.mark.parametrize("broken", [Row("{broken hush"), Row("{}", headers_text="hush"), Row("hush", "new")])
def test_what_cannot_be_decoded_cannot_be_redacted_and_is_hidden(redact: Any, broken: Row) -> None:
    redact(["card"])
    assert "can't be decoded" in content_of(broken).hidden
    assert shown("ValueError: hush", broken) == f"ValueError: {UNTOLD}"


def test_what_cannot_be_decoded_is_given_raw_where_nothing_is_redacted() -> None:
    content = content_of(Row("{broken", headers_text="[]"))
    assert (content.payload, content.headers) == ("{broken", "[]")
    assert "not JSON" in content.payload_broken
    assert "not a JSON object" in content.headers_broken


def test_a_message_is_redacted_once_for_each_of_its_contents(redact: Any) -> None:
    redact(f"{__name__}.counted")
    calls.clear()
    message = row({"card": "4111-1"})
    for _ in range(3):
        assert content_of(message).payload == {"n": 1}
        assert shown("ValueError: 4111-1", message) == f"ValueError: {MARK}"
    message.body = '{"card": "4111-2"}'
    assert shown("ValueError: 4111-2", message) == f"ValueError: {MARK}"
    assert calls == [{"card": "4111-1"}, {"card": "4111-2"}]


# -- the setting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting", [5, None, "password", ["a", 1], ["a..b"], ["**"], [""], {"name": []}, {"names": "a"}, {"callable": 1}]
)
def test_a_setting_that_makes_no_sense_is_refused(settings: Any, setting: Any) -> None:
    settings.DBQUEUE = {"REDACT": setting}
    (error,) = check_settings()
    assert isinstance(error, Error)
    assert error.id == "dbqueue.E003"
    assert "card.number" in error.msg


@pytest.mark.parametrize("path", ["no.such.module", f"{__name__}.gone", f"{__name__}.MARK"])
def test_a_hook_that_is_not_there_is_found_by_the_checks(settings: Any, path: str) -> None:
    settings.DBQUEUE = {"REDACT": {"names": ["a"], "callable": path}}
    (error,) = check_settings()
    assert error.id == "dbqueue.E008"
    assert path[:20] in error.msg


# -- types ------------------------------------------------------------------------------------------------


def test_a_value_that_has_a_type_is_hidden_however_python_shows_it(redact: Any) -> None:
    redact(["born", "since", "took"])
    born, since = date(1990, 1, 2), datetime(1991, 3, 4, 5, 6, tzinfo=UTC)
    message = row({"born": born, "since": since, "took": timedelta(seconds=5433), "n": 1}, {"a": 1})
    content = content_of(message)
    assert content.payload == {"born": MARK, "since": MARK, "took": MARK, "n": 1}
    assert content.headers == {"a": 1, TYPES: {"born": "date", "since": "datetime", "took": "timedelta"}}
    text = shown(
        f"ValueError: {born} {born!r} {since} {since!r} {since.isoformat()} 1:30:33 {timedelta(seconds=5433)!r}",
        message,
    )
    for secret in ("1990", "1991", "30:33", "5433"):
        assert secret not in text
    assert shown("ValueError: no date, and no uuid", message) == "ValueError: no date, and no uuid"


def nothing(queue: str, payload: Any, headers: dict[str, Any]) -> Any:
    return {}, {}


BALANCES: Any = {"n": Decimal(1), "rows": [{"ann@example.org": Decimal("5.25")}, "a text"], "by": {"bob": date.max}}


@pytest.mark.parametrize(
    ("setting", "types"),
    [
        (["rows", "by"], {"n": "decimal"}),
        (["rows.*"], {"n": "decimal", "by": {"bob": "date"}}),
        (["rows.0"], {"n": "decimal", "by": {"bob": "date"}}),
        (["*"], {"n": "decimal"}),
        (["**.bob"], {"n": "decimal", "rows": {"0": {"ann@example.org": "decimal"}}, "by": {"bob": "date"}}),
        (f"{__name__}.nothing", None),
    ],
)
def test_the_types_name_no_keys_of_what_is_hidden(redact: Any, setting: Any, types: Any) -> None:
    redact(setting)
    message = row(BALANCES, {"a": 1})
    headers = content_of(message).headers
    assert headers.get(TYPES) == types


def test_what_has_no_types_any_more_is_still_hidden_however_python_shows_it(redact: Any) -> None:
    redact(["all"])
    message = row({"all": {"since": datetime(1991, 3, 4, 5, 6, tzinfo=UTC)}})
    assert content_of(message).headers == {}
    assert "1991" not in shown(f"ValueError: {datetime(1991, 3, 4, 5, 6, tzinfo=UTC)!r}", message)


def test_types_that_somebody_forged_show_no_more_than_names_of_types_where_parts_are_hidden(redact: Any) -> None:
    redact(["card"])
    forged = {"card": {"4111": "uuid"}, "n": "4111", "on": "date", "all": {"*": {"4111": "date"}, "0": 4111}}
    message = row({"card": {"4111": "1"}, "n": "1", "on": "1", "all": [{"a": "1"}]}, {TYPES: forged})
    assert content_of(message).headers == {TYPES: {"on": "date"}}
