"""Errors of one kind have one fingerprint, whatever their message, line and length; others have another."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.codecs import decode
from django_dbqueue.failures.error_texts import MAX_ERROR_BYTES, class_path, error_text
from django_dbqueue.failures.fingerprint import Kind, kind_of, names_class, traceback_of
from django_dbqueue.lifecycle.rescue import LEASE_EXPIRED
from django_dbqueue.statements.events_sql import REJECT
from django_dbqueue.streams import stream_release
from django_dbqueue.streams.stream_delivery import FAILED

HERE = "tests/failures/test_fingerprint.py"


class OrderRefused(Exception):
    """An exception of the user's."""


def text_of(step: Callable[[], Any]) -> str:
    try:
        step()
    except BaseException as error:
        return error_text(error) or ""
    raise AssertionError("it raised nothing")


def kind(step: Callable[[], Any]) -> Kind:
    return kind_of(text_of(step))


def refuse(why: str = "no") -> None:
    raise OrderRefused(why)


def refuse_elsewhere() -> None:
    raise OrderRefused("no")


def refuse_deep(depth: int, why: str) -> None:
    if depth:
        refuse_deep(depth - 1, why)
    refuse(why)


def test_the_kind_is_the_class_and_the_innermost_frame() -> None:
    assert kind(refuse) == Kind("tests.failures.test_fingerprint.OrderRefused", f"{HERE}:refuse")


def test_the_message_makes_no_difference_and_the_place_does() -> None:
    assert kind(lambda: refuse("order 1")).fingerprint == kind(lambda: refuse("order 2\n\nwith lines")).fingerprint
    assert kind(refuse).fingerprint != kind(refuse_elsewhere).fingerprint


def test_the_line_makes_no_difference() -> None:
    text = text_of(refuse)
    moved = text.replace(", line ", ", line 1")
    assert moved != text
    assert kind_of(moved) == kind_of(text)


def test_where_the_code_is_deployed_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        'ValueError: x\n\nTraceback (most recent call last):\n  File "{}/shop/tasks.py", line 3, in pay\nValueError: x'
    )
    monkeypatch.setattr(sys, "path", ["/srv/2024-05", "/srv/2024-06/src", "/srv/2024-06", *sys.path])
    kinds = {kind_of(text.format(root)) for root in ("/srv/2024-05", "/srv/2024-06/src", "/venv/lib/site-packages")}
    assert kinds == {Kind("ValueError", "shop/tasks.py:pay")}
    assert kind_of(text.format("/elsewhere")).place == "/elsewhere/shop/tasks.py:pay"


def test_a_message_that_resembles_a_traceback_misleads_nothing() -> None:
    lure = 'from afar:\n\nTraceback (most recent call last):\n  File "evil.py", line 1, in lure\n    x()\nKeyError: 1'
    assert kind(lambda: refuse(lure)) == kind(refuse)


def raise_from_a_cause() -> None:
    try:
        int("x")
    except ValueError as error:
        raise OrderRefused("no") from error


def raise_while_handling() -> None:
    try:
        int("x")
    except ValueError:
        refuse()


def raise_from_what_was_never_raised() -> None:
    raise OrderRefused("no") from ValueError("Traceback (most recent call last):\n  File")


def test_of_a_chain_the_last_exception_counts() -> None:
    name = "tests.failures.test_fingerprint.OrderRefused"
    assert kind(raise_from_a_cause) == Kind(name, f"{HERE}:raise_from_a_cause")
    assert kind(raise_while_handling) == Kind(name, f"{HERE}:refuse")
    assert kind(raise_from_what_was_never_raised) == Kind(name, f"{HERE}:raise_from_what_was_never_raised")


def caught(step: Callable[[], Any]) -> BaseException:
    try:
        step()
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


def raise_group(*errors: Any) -> None:
    raise ExceptionGroup("several\nat once", errors)


def test_of_a_group_the_classes_count_in_any_order_and_the_groups_own_place() -> None:
    raised, chained, plain = caught(lambda: int("x")), caught(raise_while_handling), KeyError("k")
    found = kind(lambda: raise_group(raised, chained, plain))
    name = "ExceptionGroup (KeyError, ValueError, tests.failures.test_fingerprint.OrderRefused)"
    assert found == Kind(name, f"{HERE}:raise_group")
    assert kind(lambda: raise_group(plain, plain, chained, raised)) == found
    assert kind(lambda: raise_group(plain)) == Kind("ExceptionGroup (KeyError)", f"{HERE}:raise_group")


def test_a_group_in_a_group_counts_as_a_group() -> None:
    inner = caught(lambda: raise_group(KeyError("k"), caught(lambda: int("x"))))
    found = kind(lambda: raise_group(inner, TypeError("t")))
    assert found == Kind("ExceptionGroup (ExceptionGroup, TypeError)", f"{HERE}:raise_group")


def raise_from_a_group() -> None:
    try:
        raise_group(KeyError("k"))
    except ExceptionGroup:
        refuse()


def test_a_group_among_the_causes_is_a_cause() -> None:
    assert kind(raise_from_a_group) == kind(refuse)


def test_a_group_that_was_never_raised_is_known_by_its_class() -> None:
    assert kind_of(error_text(ExceptionGroup("g", [KeyError("k")])) or "").exception.startswith("ExceptionGroup")


def test_a_syntax_error_has_its_class() -> None:
    assert kind(lambda: compile("x y", "rules.txt", "exec")).exception == "SyntaxError"
    assert kind_of(error_text(SyntaxError("bad", ("rules.txt", 1, 1, "x y"))) or "") == Kind("SyntaxError", "")


def test_a_class_that_a_function_made_has_its_name() -> None:
    class Local(Exception):
        pass

    error = Local("x")
    assert kind_of(error_text(error) or "", class_path(error)).exception.endswith("<locals>.Local")


def test_a_recursion_without_end_has_a_place() -> None:
    def recurse() -> None:
        recurse()

    assert kind(recurse) == Kind("RecursionError", f"{HERE}:recurse")


@pytest.mark.parametrize("letter", ["x", "é", "🎉", "\udc80", "\0"])
def test_a_message_that_fills_the_text_leaves_the_class_and_the_traceback(letter: str) -> None:
    text = text_of(lambda: refuse(letter * MAX_ERROR_BYTES))
    assert MAX_ERROR_BYTES - 3 <= len(text.encode()) <= MAX_ERROR_BYTES
    assert kind_of(text) == kind(refuse)
    assert traceback_of(text).startswith("Traceback (most recent call last):\n")


def test_a_long_message_that_resembles_a_traceback_misleads_nothing() -> None:
    lure = '\n\nTraceback (most recent call last):\n  File "evil.py", line 1, in lure\n    x()\nKeyError: 1'
    text = text_of(lambda: refuse(f"{lure}{'long ' * 600}{lure}"))
    assert kind_of(text) == kind(refuse)
    assert f'{HERE}", line' in traceback_of(text).split("\n")[1]


def test_the_traceback_of_a_group_stands_behind_its_head_once() -> None:
    text = text_of(lambda: raise_group(KeyError("k"), KeyError("l")))
    head, trace = text.split("\n\n", 1)
    assert head == "ExceptionGroup: several\nat once (2 sub-exceptions)"
    assert traceback_of(text) == trace
    assert trace.startswith("  + Exception Group Traceback (most recent call last):\n")


def test_a_text_that_was_cut_has_few_kinds_wherever_it_was_cut() -> None:
    whole = kind(lambda: refuse_deep(20, "x"))
    kinds = {kind(lambda size=size: refuse_deep(20, "é" * size)) for size in range(2_000, 8_500, 97)}
    assert whole in kinds
    assert len(kinds) <= 4  # whole, cut among the frames, behind the first of them, before them


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("KeyError: 'user 17'", Kind("KeyError", "")),
        ("shop.errors.Refused", Kind("shop.errors.Refused", "")),
        ("shop.example: no 17", Kind("shop.example: no …", "")),
        ("cancelled: no departure time", Kind("cancelled: no departure time", "")),
        ("open: the door", Kind("open: the door", "")),
        ("no such user 42", Kind("no such user …", "")),
        ("no such user 43\nsee the log", Kind("no such user …", "")),
        ("can't find 'Ann' on 10.0.0.1:3306", Kind("can't find … on …", "")),
        ("order 6f1e0c9a-5b1d-4a52-9d0e-0e1f0a9b8c7d of a@b.org is late", Kind("order … of … is late", "")),
        ("one two three four five six seven", Kind("one two three four five six", "")),
        ("http://example.org:80/ answered 503", Kind("http://example.org:…/ answered …", "")),
        ("Retry: the bank answered 503", Kind("Retry", "the bank answered …")),
        ("TimedOut: shop.tasks.pay ran longer than its timeout of 3 s", Kind("TimedOut", "shop.tasks.pay")),
        (
            "WorkerDied: the process that ran this message ended by signal 9 (SIGKILL).",
            Kind("WorkerDied", "signal 9 (SIGKILL)"),
        ),
        ("WorkerDied: the process that ran this message ended by exit code 3.", Kind("WorkerDied", "exit code 3")),
        ("WorkerGone: session gone: worker a:17 has missed three beats, and …", Kind("WorkerGone", "")),
        (LEASE_EXPIRED, Kind("LeaseOver", "")),
        (
            stream_release.LEASE_EXPIRED.format(number=7, stream="lake"),
            Kind("LeaseOver", "stream lake"),
        ),
        (
            FAILED.format(stream="lake"),
            Kind("StreamFailed", "stream lake"),
        ),
        ("Interrupted: the worker was stopped before the handler returned.", Kind("Interrupted", "")),
    ],
)
def test_a_text_without_a_traceback_is_known_by_its_class_or_its_first_words(error: str, expected: Kind) -> None:
    assert kind_of(error) == expected


@pytest.mark.parametrize("reason", ["cancelled", "KeyError: 17", "Retry: later", "Traceback (most recent call last):"])
def test_a_reason_of_a_reject_names_no_class_whatever_its_form(reason: str) -> None:
    found = kind_of(reason, REJECT)
    assert (found.exception, found.place.split()[0]) == ("Reject", reason.split()[0])
    assert not names_class(found.exception, found.place, "place"), "it may quote a payload"


def test_the_class_is_what_was_raised_whatever_the_text_is() -> None:
    assert kind_of("cancelled", "shop.errors.Refused") == Kind("shop.errors.Refused", "")
    assert kind_of(text_of(refuse), "shop.errors.Refused") == Kind("shop.errors.Refused", f"{HERE}:refuse")


def test_a_traceback_alone_is_read_too() -> None:
    _, _, trace = text_of(refuse).partition("\n\n")
    assert kind_of(trace) == kind(refuse)
    assert kind_of(f"it went wrong:\n{trace}") == kind(refuse)


def test_what_undecodable_payloads_raise_has_a_place() -> None:
    found = kind(lambda: decode("{", "json"))
    assert found.exception == "django_dbqueue.exceptions.UndecodableMessage"
    assert found.place.startswith("django_dbqueue/codecs.py:")


def test_anything_that_stands_in_the_column_has_a_kind_that_can_be_stored() -> None:
    chance = random.Random(7)
    pieces = ["\n", "\n\n", "  ", "Traceback (most recent call last):\n", '  File "a", line 1, in b\n', "    x\n", ":",
              "  + Exception Group Traceback (most recent call last):\n", "  | ", "    | ", "  +-+---- 1 ----\n",
              "é☃🎉", "ValueError", "\0", "\udc80", "'", '"', "7" * 9, "\x0b", "\u2028"]  # fmt: skip
    for _ in range(3_000):
        text = "".join(chance.choices(pieces, k=chance.randrange(1, 30))) * chance.choice((1, 1, 1, 800))
        found = kind_of(text)
        assert len(found.exception) <= 200
        assert len(found.place) <= 300
        assert len(found.fingerprint) == 64
        assert "\0" not in found.exception + found.place
        (found.exception + found.place).encode()
