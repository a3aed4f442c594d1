"""No error tells what is redacted, however it writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_dbqueue.redaction.masking import UNTOLD, outline
from django_dbqueue.redaction.policy import MARK, error_text
from tests.redaction.contents import raised, row, shown


@pytest.mark.parametrize(
    "secret",
    [
        "4111 1111 1111 1111",
        "a@b.example",
        "quo\"te's \\ back",
        "line\nbreak",
        "ümlaut ☃",
        "<b>&amp;",
        41111111,
        12.345,
    ],
)
def test_a_redacted_value_is_masked_however_an_error_writes_it(redact: Any, secret: Any) -> None:
    redact(["user.secret"])
    payload = {"user": {"secret": secret}}
    for error in (
        ValueError(f"bad: {secret}!"),
        KeyError(secret),
        ValueError(payload),
        ValueError(json.dumps(payload)),
        ValueError(f"x{secret}y"),
    ):
        text = shown(raised(error), row(payload))
        assert str(secret) not in text
        assert repr(secret).strip("'\"") not in text
        assert json.dumps(secret).strip('"') not in text
        assert MARK in text
        assert type(error).__name__ in text
        assert "in raised" in text


def test_values_in_urls_and_in_another_case_are_masked(redact: Any) -> None:
    redact(["email"])
    text = shown("HTTPError: GET /users?email=Ann%40B.example&x=ANN@B.EXAMPLE", row({"email": "Ann@B.example"}))
    assert text == f"HTTPError: GET /users?email={MARK}&x={MARK}"


def test_short_values_are_masked_only_where_they_stand_for_themselves(redact: Any) -> None:
    redact(["cvv", "pin", "on"])
    text = 'File "a.py", line 123, in f\n1234 123 x1 pin=1 {\'pin\': 1, "on": true} 1'
    assert shown(text, row({"cvv": 123, "pin": 1, "on": True})) == (
        f'File "a.py", line 123, in f\n1234 {MARK} x1 pin={MARK} {{\'pin\': {MARK}, "on": {MARK}}} 1'
    )


def test_a_value_that_was_cut_with_the_error_is_masked(redact: Any) -> None:
    redact(["token"])
    message = row({"token": "abcdefghijkl"})
    assert shown("ValueError: bad abcdefgh", message) == f"ValueError: bad {MARK}"
    assert shown("ValueError: bad abc", message) == "ValueError: bad abc"


def test_everything_below_a_redacted_name_is_masked(redact: Any) -> None:
    redact(["card"])
    message = row({"card": {"numbers": ["4111-1", "4111-2"], "holder": {"name": "Ann Other"}}, "kept": "order-7"})
    assert shown("ValueError: 4111-2 of Ann Other, order-7", message) == f"ValueError: {MARK} of {MARK}, order-7"


def test_a_payload_of_very_many_values_leaves_the_outline(redact: Any) -> None:
    redact(["*"])
    message = row([f"value-{n}" for n in range(10_001)])
    assert shown("ValueError: value-7", message) == f"ValueError: {UNTOLD}"


def test_an_error_without_its_message_at_hand_is_an_outline_once_something_is_redacted(redact: Any) -> None:
    assert error_text("ValueError: hush", of=None, sees_payload=True) == "ValueError: hush"
    redact(["card"])
    assert error_text("ValueError: hush", of=None, sees_payload=True) == f"ValueError: {UNTOLD}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ValueError: hush", f"ValueError: {UNTOLD}"),
        ("app.errors.NoSuchUserError: hush", f"app.errors.NoSuchUserError: {UNTOLD}"),
        ("LeaseOver: the lease ended", f"LeaseOver: {UNTOLD}"),
        ("TimedOut: send ran longer", f"TimedOut: {UNTOLD}"),
        ("WorkerDied: the process ended", f"WorkerDied: {UNTOLD}"),
        ("Interrupted: the worker was stopped", f"Interrupted: {UNTOLD}"),
        ("hush", UNTOLD),
        ("Hush: hush", UNTOLD),
        ("no such user hush@example.org", UNTOLD),
        ("Rejected by op: hush", UNTOLD),
    ],
)
def test_an_outline_has_the_class_and_nothing_of_the_detail(text: str, kind: str) -> None:
    assert outline(text) == kind
    assert error_text(text, of=row("hush"), sees_payload=False) == kind


def test_an_outline_of_a_traceback_has_the_places() -> None:
    class Hidden(Exception):
        pass

    text = outline(raised(Hidden("hush\nhush: hush\n  hush")))
    assert "hush" not in text
    first, _, trace = text.partition("\n\n")
    assert first.endswith(f"Hidden: {UNTOLD}")
    assert ", in raised" in trace
    assert len(trace.splitlines()) == 2


def test_no_error_is_no_text() -> None:
    assert error_text(None, of=None, sees_payload=False) == ""
