"""What becomes of the packages of django-q2."""

from __future__ import annotations

import os
import pickle
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core import signing
from django.test import override_settings
from django.utils import timezone

from django_dbqueue.models import Message
from tests.importers.layouts import OrmQ
from tests.importers.others import NOTHING, DjangoQ2, assert_it_stays, imported_from

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("its_table")]
OTHER = DjangoQ2()


def test_a_call_becomes_a_task_in_its_own_queue() -> None:
    OTHER.enqueue([0], func="tests.tasks_app.jobs.fail_later", args=(1, {"ü": None}), kwargs={"b": "x"}, group="g")
    key = OrmQ.objects.get().pk
    assert imported_from(OTHER)["taken"] == 1
    message = Message.objects.get()
    assert (message.payload, message.queue) == ({"args": [1, {"ü": None}], "kwargs": {"b": "x"}}, "jobs")
    assert message.headers == {
        "dbqueue.task": "tests.tasks_app.jobs.fail_later",
        "dbqueue.imported_from": f"django-q2 {key}",
    }
    assert message.max_reads == 2


@override_settings(Q_CLUSTER={"name": "shop", "orm": "default"})
def test_the_salt_is_the_name_of_the_site_and_packages_may_be_compressed() -> None:
    OTHER.enqueue([7], salt="shop", compress=True, args=("x" * 1_000,))
    OTHER.enqueue([8], salt="another")
    counts = imported_from(OTHER)
    assert (counts["taken"], counts["left_alone"]) == (1, 1)
    assert "Its signature doesn't match" in counts["reasons"][0]["why"]
    assert Message.objects.get().payload["args"] == ["x" * 1_000]


@override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["for tests only"])
def test_a_key_that_was_rotated_still_counts() -> None:
    payload = signing.dumps({"func": NOTHING, "args": (), "kwargs": {}}, key="for tests only", salt="default",
                            serializer=_Pickles)  # fmt: skip
    OTHER.store(payload)
    assert imported_from(OTHER)["taken"] == 1


class _Pickles:
    def dumps(self, obj: object) -> bytes:
        return pickle.dumps(obj)

    def loads(self, data: bytes) -> object:
        raise AssertionError


class Tempting:
    """Its pickle calls a function."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (self.file,)


def test_a_pickle_calls_nothing_and_a_function_in_it_is_only_named(tmp_path: Path) -> None:
    from tests.tasks_app import jobs

    OTHER.enqueue([0], args=(Tempting(str(tmp_path / "made")),))
    OTHER.enqueue([1], func=jobs.soon)
    reasons = {reason["why"] for reason in imported_from(OTHER)["reasons"]}
    assert not (tmp_path / "made").exists()
    pickle, function = sorted(reasons)
    assert "posix.mkdir" in pickle
    assert "tests.tasks_app.jobs.soon" in function


def test_values_arrive_as_they_are() -> None:
    values = [
        date(2026, 1, 1),
        time(1, 2),
        datetime(2026, 1, 1, tzinfo=UTC),
        timedelta(1),
        Decimal("1.10"),
        UUID(int=7),
    ]
    OTHER.enqueue([0], args=(values,))
    assert imported_from(OTHER)["taken"] == 1
    assert Message.objects.get().payload["args"] == [values]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"args": (Fraction(1),)}, "not decoded: fractions.Fraction"),
        ({"args": (Fraction, len)}, "can't be enqueued so"),
        ({"kwargs": {"by": [Fraction]}}, "can't be enqueued so"),
        ({"args": ([{"a": b"x"}],)}, "It has bytes among its arguments"),
        ({"args": ({1},)}, "can't be enqueued so"),
        ({"kwargs": [1]}, "can't be enqueued so"),
        ({"hook": "shop.done"}, "Its option hook means calls"),
        ({"chain": [("shop.next", ())]}, "Its option chain means calls"),
        ({"iter_count": 3}, "Its option iter_count means calls"),
        ({"func": "shop.gone"}, "The task shop.gone can't be imported"),
        ({"func": 7}, "It doesn't name a function"),
    ],
)
def test_what_can_not_be_a_task_here_stays_with_its_reason(columns: dict[str, Any], why: str) -> None:
    assert_it_stays(OTHER, why, **columns)


@pytest.mark.parametrize("payload", ["", "nonsense", "a:b:c"])
def test_an_unsigned_payload_stays(payload: str) -> None:
    OTHER.store(payload)
    assert "signature doesn't match" in imported_from(OTHER)["reasons"][0]["why"]


@pytest.mark.parametrize("text", ["A", ".AAAA", "AAAA"], ids=["no base 64", "not compressed", "no pickle"])
def test_what_is_signed_and_is_no_package_stays_and_stops_no_other(text: str) -> None:
    OTHER.store(signing.TimestampSigner(salt="default").sign(text))
    OTHER.enqueue([1])
    counts = imported_from(OTHER)
    assert (counts["taken"], counts["left_alone"]) == (1, 1)


def test_what_a_cluster_has_claimed_is_left_until_its_lock_is_past() -> None:
    OTHER.enqueue(range(2))
    claimed = OTHER.claim()
    counts = imported_from(OTHER)
    assert (counts["waiting"], counts["running"], counts["taken"]) == (1, 1, 1)
    assert OrmQ.objects.get().pk == claimed
    OrmQ.objects.update(lock=timezone.now() - timedelta(minutes=1))
    assert imported_from(OTHER)["taken"] == 1, "its cluster has died, and another one would run it again"
