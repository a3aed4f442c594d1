"""Arguments that a model has: UUIDs, dates, decimals and the like come back as they were, in results too (P12)."""

from __future__ import annotations

import json
import random
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.models import Message, Result
from django_dbqueue.tasks.compat import HOME, InvalidTask
from tests.of_types import LOOKALIKES, VALUES, any_payload, as_seen
from tests.tasks.hearing import ENDS, hearing
from tests.tasks.running import run

pytestmark = pytest.mark.django_db(transaction=True)

ORDER = uuid.UUID("12345678-1234-5678-9234-567812345678")
BACKEND = f"{HOME}.backends"


def test_arguments_and_result_come_back_equal_and_of_their_types(jobs: Any) -> None:
    jobs.SEEN.clear()
    values = [*VALUES, *LOOKALIKES]
    sent = jobs.return_all.enqueue(*values, rows=[{"value": value} for value in VALUES], text="12.50")
    kwargs = {"rows": [{"value": value} for value in VALUES], "text": "12.50"}
    assert as_seen([sent.args, sent.kwargs]) == as_seen([values, kwargs])
    shown: list[Any] = []
    with hearing(lambda task_result, **_: shown.append(task_result.return_value), ENDS[1]):
        run()
    [(args, named)] = jobs.SEEN
    assert as_seen([args, named]) == as_seen([values, kwargs])
    for result in (jobs.return_all.get_result(sent.id), sent):
        result.refresh()
        assert as_seen([result.args, result.kwargs]) == as_seen([values, kwargs])
        assert as_seen(result.return_value) == as_seen([*values, kwargs])
    assert as_seen(shown) == as_seen([[*values, kwargs]])


def test_any_arguments_come_back(jobs: Any) -> None:
    draw = random.Random(32)
    payloads = [any_payload(draw) for _ in range(60)]
    results = [jobs.return_all.enqueue(payload) for payload in payloads]
    run()
    for result, payload in zip(results, payloads, strict=True):
        result.refresh()
        assert as_seen(result.return_value) == as_seen([payload, {}])


@pytest.mark.parametrize("value", [ORDER, Decimal("12.50"), date(2026, 11, 27), [ORDER, "text"], {"a": {"b": ORDER}}])
def test_a_result_is_plain_json_with_its_types_in_a_column(jobs: Any, value: Any) -> None:
    sent = jobs.return_async.enqueue(value)
    run()
    sent.refresh()
    assert as_seen(sent.return_value) == as_seen(value)
    kept = Result.objects.get()
    assert json.loads(kept.body) == json.loads(json.dumps(value, default=str))
    assert (kept.content_type, kept.types is None) == ("json", False)


def test_a_result_without_such_values_has_no_types(jobs: Any) -> None:
    jobs.add.enqueue(1, 2)
    run()
    assert Result.objects.get().types is None


def test_forged_types_of_a_result_leave_the_plain_value(jobs: Any) -> None:
    sent = jobs.return_async.enqueue(ORDER)
    run()
    for forged in ('"os.system"', '{"a": "uuid"}', "{", '"decimal"', "", "[" * 500):
        Result.objects.update(types=forged)
        sent.refresh()
        assert sent.return_value == str(ORDER)


def test_a_step_of_a_task_remembers_the_type(jobs: Any) -> None:
    sent = jobs.typed_in_steps.enqueue(datetime(2026, 11, 27, tzinfo=UTC))
    run()
    run(with_delayed=True)
    sent.refresh()
    assert sent.return_value == [datetime(2026, 11, 27, tzinfo=UTC)]


def test_a_function_of_the_arguments_gets_them_as_they_were_sent(jobs: Any) -> None:
    jobs.charge.enqueue(ORDER)
    assert Message.objects.get().group == f"account-{ORDER}"


def test_many_at_once_have_their_types(jobs: Any) -> None:
    jobs.return_all.get_backend().enqueue_many([(jobs.return_all, (value,), {}) for value in VALUES])
    jobs.SEEN.clear()
    run()
    assert [as_seen(args) for args, _ in jobs.SEEN] == [as_seen((value,)) for value in VALUES]


def test_one_task_with_many_arguments_is_found_once_for_all(jobs: Any) -> None:
    from django_dbqueue.tasks import known_tasks

    known_tasks._known.cache_clear()
    for value in VALUES:
        jobs.return_all.enqueue(value)
    run()
    assert known_tasks._known.cache_info().currsize == 1


class Money(Decimal):
    pass


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Money("1.50"), "a Money would come back as a Decimal, so convert it first"),
        ([{"a": Money("1.50")}], "a Money would come back as a Decimal, so convert it first"),
        (Decimal("NaN"), "NaN and infinities are not JSON"),
        ({1, 2}, "Unsupported type: <class 'set'>"),
        ({ORDER: 1}, r"has the key UUID\(.*\) of type UUID: .* use string keys"),
    ],
)
def test_other_arguments_are_refused_with_the_reason(jobs: Any, wrong: Any, why: str) -> None:
    with pytest.raises(
        (TypeError, ValueError, InvalidTask, InvalidMessage), match=rf"tests\.tasks_app\.jobs\.return_all.*{why}"
    ):
        jobs.return_all.enqueue(wrong)
    assert not Message.objects.exists()


def test_other_results_end_the_task(odd: Any, jobs: Any) -> None:
    sent = jobs.give_set.enqueue()
    run()
    sent.refresh()
    assert sent.status == "FAILED"


def test_djangos_own_backends_take_what_json_can_express_alone(jobs: Any) -> None:
    for name in ("immediate.ImmediateBackend", "dummy.DummyBackend"):
        with override_settings(TASKS={"default": {"BACKEND": f"{BACKEND}.{name}"}}), pytest.raises(TypeError):
            jobs.return_all.enqueue(ORDER)
