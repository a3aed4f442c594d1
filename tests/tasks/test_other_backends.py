"""Our tasks where ``TASKS`` names another backend: Django's immediate and dummy ones, as tests set them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue.models import Message
from django_dbqueue.tasks import task_options
from django_dbqueue.tasks.compat import HOME, InvalidTask, Task
from django_dbqueue.tasks.options import ATTRIBUTE, options_of
from tests.tasks.conftest import TASKS

pytestmark = pytest.mark.django_db

IN_PROCESS = {"immediate": "ImmediateBackend", "dummy": "DummyBackend"}
OURS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "expires": {"expires": 60},
    "group": {"group": "ann"},
    "once": {"once": "ann-1", "once_for": timedelta(hours=1)},
    "all": {"expires": timedelta(1), "group": "ann", "once": "ann-1", "once_for": 5, "priority": 3},
}


@pytest.fixture(params=IN_PROCESS)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """One of Django's backends, in the place of ours."""
    name = str(request.param)
    backend = {"BACKEND": f"{HOME}.backends.{name}.{IN_PROCESS[name]}", "QUEUES": []}
    with override_settings(TASKS={"default": backend}):
        yield name


@pytest.mark.parametrize("options", OURS.values(), ids=OURS)
def test_celerys_words_work_under_djangos_backends(jobs: Any, kind: str, options: dict[str, Any]) -> None:
    for result in (jobs.add.apply_async((1, 2), **options), jobs.add.delay(1, 2)):
        assert result.args == [1, 2]
        assert result.status == ("SUCCESSFUL" if kind == "immediate" else "READY")
        if kind == "immediate":
            assert result.return_value == 3
    assert not Message.objects.exists()


def test_a_wrong_length_of_time_is_refused_there_too(jobs: Any, kind: str) -> None:
    with pytest.raises(InvalidTask, match="expires must be"):
        jobs.add.apply_async((1, 2), expires="soon")


@override_settings(TASKS=TASKS | {"theirs": {"BACKEND": "tests.tasks.standins.Theirs", "QUEUES": []}})
def test_another_backend_gets_no_option_of_ours_and_loses_none_silently(jobs: Any) -> None:
    task = jobs.add.using(backend="theirs")
    assert task.apply_async((1, 2)).args == [1, 2]
    for name in ("expires", "group", "once"):
        with pytest.raises(InvalidTask, match=f"Theirs has no {name}"):
            task.apply_async((1, 2), **OURS[name])


def test_options_are_given_below_the_task_or_above_it(odd: Any) -> None:
    options = options_of(odd.optioned, {"max_attempts": 9, "backoff": 3})
    assert (options.max_attempts, options.keep_results, options.lease, options.backoff) == (1, 60, 30, 3)


def test_options_that_are_given_after_they_were_read_hold(odd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    task = odd.stand_aside
    monkeypatch.setattr(task.func, ATTRIBUTE, {}, raising=False)
    assert options_of(task, {}).max_attempts is None
    assert task_options(max_attempts=4)(task) is task
    assert options_of(task, {}).max_attempts == 4
    with pytest.raises(InvalidTask, match="no option 'retries'"):
        task_options(retries=3)


def test_who_hooks_into_enqueue_sees_apply_async(jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Sentry and debug-toolbar do."""
    seen: list[tuple[Any, ...]] = []
    enqueue = Task.enqueue

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return enqueue(self, *args, **kwargs)

    monkeypatch.setattr(Task, "enqueue", watched)
    result = jobs.add.apply_async((1,), {"b": 2}, group="ann", once="ann-1")
    assert seen == [((1,), {"b": 2})]
    assert Message.objects.get(pk=result.id).group == "ann"
    assert result.task == jobs.add
    assert result.task.call_options is None
    assert jobs.add.apply_async((1,), {"b": 2}, once="ann-1").id == result.id
