"""What a handler does to its connection, a worker survives; and so does the transaction of a test, or says why not."""

from __future__ import annotations

import logging

import pytest
from django.db import transaction
from django.test import TestCase

from django_dbqueue.models import Message, Queue
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, MessageFactory
from tests.testing.conftest import Consumes
from tests.testing.troubles import Trouble, effects

# -- hooks on the commit ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("kind")
def test_hooks_on_the_commit_run_once_with_their_handler_and_those_of_what_was_rolled_back_do_not(
    consumes: Consumes,
) -> None:
    heard = []

    def handle(message: Message) -> None:
        with transaction.atomic():
            transaction.on_commit(lambda: heard.append(f"{message.payload} inside"))
        transaction.on_commit(lambda: heard.append(f"{message.payload} outside"))
        try:
            with transaction.atomic():
                transaction.on_commit(lambda: heard.append("rolled back"))
                raise Trouble
        except Trouble:
            pass

    consumes(handle)
    for payload in ("first", "second"):
        MessageFactory(payload=payload)
    assert len(run_consumers(QUEUE).done) == 2
    assert heard == ["first inside", "first outside", "second inside", "second outside"]


@pytest.mark.usefixtures("kind")
def test_a_hook_may_enqueue_and_have_hooks_of_its_own(consumes: Consumes) -> None:
    def send_next(message: Message) -> None:
        with transaction.atomic():
            transaction.on_commit(lambda: transaction.on_commit(lambda: None))
            if message.payload:
                transaction.on_commit(lambda: Message.objects.enqueue(message.payload - 1, queue=QUEUE) and None)

    consumes(send_next, transactional=True)
    MessageFactory(payload=2)
    assert [message.payload for message in run_consumers(QUEUE).done] == [2, 1, 0]


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize(("transactional", "outcome"), [(False, "waiting"), (True, "done")])
def test_a_hook_that_fails_fails_the_handler_and_undoes_no_commit(
    consumes: Consumes, transactional: bool, outcome: str
) -> None:
    heard = []

    def fail() -> None:
        raise Trouble("in the hook")

    def handle(_message: Message) -> None:
        with transaction.atomic():
            Queue.objects.create(name="effect")
            transaction.on_commit(fail)
            transaction.on_commit(lambda: heard.append("after the one that failed"))

    consumes(handle, transactional=transactional)
    MessageFactory()
    with TestCase.captureOnCommitCallbacks() as left:
        [handled] = run_consumers(QUEUE, on_error="collect")
    assert left == []
    assert handled.outcome == outcome
    assert str(handled.error) == "in the hook"
    assert effects() == ["effect"]
    assert heard == []


@pytest.mark.usefixtures("kind")
def test_hooks_of_what_a_handler_committed_before_it_failed_run(consumes: Consumes) -> None:
    heard = []

    def handle(_message: Message) -> None:
        with transaction.atomic():
            transaction.on_commit(lambda: heard.append("committed"))
        raise Trouble

    consumes(handle)
    MessageFactory()
    with pytest.raises(Trouble):
        run_consumers(QUEUE)
    assert heard == ["committed"]


@pytest.mark.usefixtures("kind")
def test_a_robust_hook_that_fails_is_logged_and_stops_nothing(
    consumes: Consumes, caplog: pytest.LogCaptureFixture
) -> None:
    heard = []

    def fail() -> None:
        raise Trouble("in the hook")

    def handle(_message: Message) -> None:
        with transaction.atomic():
            transaction.on_commit(fail, robust=True)
            transaction.on_commit(lambda: heard.append("next"))

    consumes(handle)
    MessageFactory()
    with caplog.at_level(logging.ERROR):
        assert len(run_consumers(QUEUE).done) == 1
    assert heard == ["next"]
    assert "in the hook" in caplog.text


@pytest.mark.django_db
def test_the_tests_own_hooks_wait_for_capture_on_commit_callbacks_as_ever(consumes: Consumes) -> None:
    heard = []
    consumes(lambda message: transaction.on_commit(lambda: heard.append(message.payload)))
    with TestCase.captureOnCommitCallbacks() as waiting:
        transaction.on_commit(lambda: Message.objects.enqueue("sent by a hook", queue=QUEUE) and None)
        MessageFactory(payload="sent at once")
        run_consumers(QUEUE)
        assert heard == ["sent at once"]
    assert len(waiting) == 1
    with TestCase.captureOnCommitCallbacks(execute=True):
        transaction.on_commit(lambda: Message.objects.enqueue("sent by a hook", queue=QUEUE) and None)
    run_consumers(QUEUE)
    assert heard == ["sent at once", "sent by a hook"]
