"""Groups in a caller's transaction: what others did to them between its beginning and its commit (P18, P19)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection, transaction

from django_dbqueue.models import Group, Message
from tests.concurrency.steps import aside
from tests.factories import QUEUE, claim_one
from tests.groups.rows import line, nothing_is_left, tickets

pytestmark = pytest.mark.django_db(transaction=True)


def send(payload: int = 0, **options: object) -> Message:
    message: Message = Message.objects.enqueue(payload, queue=QUEUE, group="a", **options)  # type: ignore[arg-type]
    return message


def began() -> list[int]:
    """Let all run; return their ids, in the order in which they began."""
    ids = []
    while messages := Message.objects.claim(10, queue=QUEUE):
        ids += [message.pk for message in messages]
        Message.objects.ack(messages)
    return ids


if settings.TEST_DATABASE != "sqlite":  # which lets nobody write beside it

    def test_what_gets_its_turn_before_a_pause_is_committed_waits_again() -> None:
        message, last = send(), send()
        message = claim_one()
        with aside() as other:
            with transaction.atomic():
                Group.objects.pause(QUEUE, "a")
                other.do(message.ack)
                assert tickets() == [last.pk]
            assert (line(), tickets()) == ([last.pk], [])
        Group.objects.resume(QUEUE, "a")
        assert began() == [last.pk]


def test_a_pause_that_is_rolled_back_parks_none() -> None:
    message = send()
    with transaction.atomic():
        Group.objects.pause(QUEUE, "a")
        transaction.set_rollback(True)
    assert (line(), tickets()) == ([], [message.pk])
    assert began() == [message.pk]


if settings.TEST_DATABASE in {"mysql", "mariadb"}:

    @pytest.fixture
    def at_repeatable_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "isolation_level", "repeatable read")
        connection.close()
        yield
        connection.close()

    @pytest.mark.usefixtures("at_repeatable_read")
    def test_one_that_had_its_turn_after_the_callers_first_read_keeps_it_when_it_is_updated() -> None:
        first, second, third = send(), send(key="k"), send()
        first = claim_one()
        with aside() as other, transaction.atomic():
            assert Message.objects.count() == 3
            other.do(first.ack)
            send(1, key="k", on_conflict="update")
        assert (line(), tickets()) == ([third.pk], [second.pk])
        assert began() == [second.pk, third.pk]
        assert nothing_is_left()

    @pytest.mark.usefixtures("at_repeatable_read")
    def test_one_that_has_lost_its_turn_since_the_callers_first_read_waits_for_it() -> None:
        first, second = send(key="k"), send()

        with aside() as other, transaction.atomic():
            assert tickets() == [first.pk]
            other.do(lambda: Group.objects.pause(QUEUE, "a"))
            send(1, key="k", on_conflict="update")
        assert (line(), tickets()) == ([first.pk, second.pk], [])
        Group.objects.resume(QUEUE, "a")
        assert began() == [first.pk, second.pk]
