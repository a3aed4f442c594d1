"""What operators see and do: adjectives select, verbs change what still stands as it was seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils.translation import gettext_lazy

from django_dbqueue import DuplicateKey, InvalidMessage, LeaseLost
from django_dbqueue.exceptions import UndecodableMessage
from django_dbqueue.models import ArchivedMessage, Group, Message
from django_dbqueue.models.querysets import MessageQuerySet
from django_dbqueue.operations.seen import Seen
from tests.factories import (
    QUEUE,
    claim_one,
    dead,
    done,
    held,
    let_pass,
    row,
    rows,
    stuck,
    waiting,
    written_by_sql,
)

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


def delayed(**options: Any) -> Message:
    return waiting(delay=1000, **options)


def held_up(**options: Any) -> Message:
    message = waiting(group="g", **options)
    Group.objects.pause(message.queue, "g")
    return message


STATES: dict[str, Callable[..., Message]] = {
    "ready": waiting,
    "delayed": delayed,
    "waiting": held_up,
    "running": held,
    "stuck": stuck,
    "done": done,
    "dead": dead,
}


def one_of_each(queue: str = QUEUE) -> dict[str, Message]:
    """The waiting ones last, since ``held`` takes what is due."""
    order = ("done", "dead", "running", "stuck", "delayed", "waiting", "ready")
    return {state: STATES[state](queue=queue, key=state) for state in order}


# Adjectives


@pytest.mark.parametrize("state", STATES)
def test_an_adjective_selects_its_state_of_one_queue_or_of_all(state: str) -> None:
    here, there = one_of_each("here"), one_of_each("there")
    assert list(getattr(Message.objects, state)("here")) == [here[state]]
    assert list(getattr(Message.objects, state)("there")) == [there[state]]
    assert list(getattr(Message.objects, state)("nowhere")) == []
    assert set(getattr(Message.objects, state)()) == {here[state], there[state]}
    assert list(getattr(Message.objects.filter(pk=here[state].pk), state)()) == [here[state]]
    with pytest.raises(InvalidMessage):
        getattr(Message.objects, state)("no good")


def test_every_message_is_in_exactly_one_state() -> None:
    messages = one_of_each()
    for state, message in messages.items():
        found = [name for name in STATES if getattr(Message.objects, name)().filter(pk=message.pk).exists()]
        assert found == [state]


# Requeue, reject, drop: what may move, and as what it comes out

MAY_MOVE = {
    "requeue": {"running", "stuck", "dead"},
    "reject_waiting": {"ready", "delayed", "waiting"},
    "due_now": {"delayed"},
    "drop_all": {"ready", "delayed", "waiting", "running", "stuck", "dead"},
    "purge": {"done", "dead"},
}


def do(verb: str, selected: Any) -> int:
    return int(getattr(selected, verb)(*([] if verb in {"requeue", "due_now", "purge"} else ["by me"])))


@pytest.mark.parametrize("verb", MAY_MOVE)
@pytest.mark.parametrize("state", STATES)
def test_a_verb_moves_what_it_may_and_leaves_all_else_as_it_is(verb: str, state: str) -> None:
    message = one_of_each()[state]
    others = [each for each in rows() if each["id"] != message.pk]
    before = row(message)
    moved = do(verb, Message.objects.filter(pk=message.pk))
    assert moved == int(state in MAY_MOVE[verb])
    if not moved:
        assert row(message) == before
    elif verb == "purge":
        assert not Message.objects.filter(pk=message.pk).exists()
    else:
        assert row(message) != before
    assert [each for each in rows() if each["id"] != message.pk] == others


@pytest.mark.parametrize("verb", MAY_MOVE)
def test_a_verb_returns_how_many_of_a_selection_it_moved(verb: str) -> None:
    for queue in ("a", "b", "c"):
        one_of_each(queue)
    assert do(verb, Message.objects.exclude(queue="c")) == 2 * len(MAY_MOVE[verb])
    assert do(verb, Message.objects.exclude(queue="c")) == 0


def test_a_verb_goes_through_a_selection_page_by_page() -> None:
    Message.objects.enqueue_many(range(1203), queue=QUEUE)
    assert Message.objects.ready(QUEUE).reject_waiting("too many") == 1203
    assert Message.objects.dead(QUEUE).requeue() == 1203
    assert Message.objects.ready(QUEUE).drop_all("too many") == 1203
    assert Message.objects.done(QUEUE).purge() == 1203


def test_a_requeued_message_is_as_if_new() -> None:
    message = stuck(key="k", max_reads=3)
    Message.objects.rescue()
    claim_one().reject("unwanted")
    Message.objects.filter(pk=message.pk).update(claimed_at=row(message)["created_at"])
    let_pass(message, 1000)
    assert Message.objects.dead().requeue() == 1
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["crashes"], stored["live"]) == ("n", 0, 0, 1)
    assert (stored["conn_id"], stored["worker_id"], stored["finished_at"]) == (None, None, None)
    assert stored["available_at"] == stored["due_at"]
    assert (stored["due_at"] - stored["created_at"]).total_seconds() > 999
    assert stored["max_reads"] == 3


def test_a_rejected_message_is_dead_with_the_reason_and_its_counts() -> None:
    message = waiting(key="k")
    Message.objects.filter(pk=message.pk).reject_waiting("spam")
    stored = row(message)
    assert (stored["status"], stored["available_at"], stored["live"], stored["error"]) == ("n", None, None, "spam")
    assert (stored["read_count"], bool(stored["finished_at"])) == (0, True)


def test_a_dropped_message_is_done_and_shows_by_whom() -> None:
    message = held(key="k")
    Message.objects.filter(pk=message.pk).drop_all("dropped by anna")
    stored = row(message)
    assert (stored["status"], stored["live"], stored["error"]) == ("y", None, "dropped by anna")
    assert (stored["conn_id"], stored["worker_id"]) == (None, None)
    assert stored["available_at"] == stored["finished_at"]


# A stale page changes nothing: the verbs name the state and the token that was seen


def claimed_again(message: Message) -> None:
    """Released and taken by somebody: the same state as before for a running one, under another token."""
    if row(message)["status"] == "run":
        Message.objects.get(pk=message.pk).release()
    elif row(message)["available_at"] is None:
        Message.objects.filter(pk=message.pk).requeue()
    assert claim_one() == message


def claimed_and_back_again(message: Message) -> None:
    """In the very state that was seen, after another claim."""
    state = (row(message)["status"], row(message)["available_at"] is None)
    claimed_again(message)
    holder = Message.objects.get(pk=message.pk)
    if state == ("n", True):
        holder.reject("once more")
    elif state == ("n", False):
        holder.release()


@pytest.mark.parametrize("verb", ["requeue", "reject_waiting", "drop_all"])
@pytest.mark.parametrize("state", ["ready", "running", "dead"])
@pytest.mark.parametrize("act", [claimed_again, claimed_and_back_again])
def test_a_page_that_was_read_before_the_next_claim_changes_nothing(
    verb: str, state: str, act: Callable[[Message], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    message = STATES[state](key="k")
    seen = Message.objects.get(pk=message.pk)
    act(message)
    before = rows()
    monkeypatch.setattr(MessageQuerySet, "_each", lambda _: iter([Seen(seen.pk, seen.claim_token, seen.queue)]))
    assert do(verb, Message.objects.all()) == 0
    assert rows() == before


# Send again


def test_send_again_makes_a_new_message_that_names_the_one_it_repeats() -> None:
    message = done(payload={"to": "a@b.c"}, key="k", priority=7, max_reads=3, lease=9, headers={"trace": "t", "n": 1})
    before = row(message)
    assert Message.objects.done(QUEUE).send_again() == 1
    assert row(message) == before
    again = Message.objects.ready(QUEUE).get()
    assert (again.payload, again.key, again.priority) == (message.payload, "k", 7)
    assert (again.max_reads, again.lease_seconds, again.read_count) == (3, 9, 0)
    assert again.headers == {"trace": "t", "n": 1, "dbqueue.sent_again_from": message.pk}
    assert again.live == 1


@pytest.mark.parametrize("payload", ["text\r\n", b"\0\xff", {"a": [1.5, None]}, "NUL\0"])
def test_send_again_sends_the_same_payload(payload: Any) -> None:
    message = done(payload=payload)
    Message.objects.done(QUEUE).send_again()
    again = claim_one()
    assert (again.payload, again.body, again.content_type) == (payload, message.body, message.content_type)


def test_send_again_reports_the_message_that_cannot_be_decoded_and_goes_on_with_the_others() -> None:
    Message.objects.enqueue_many([1, 2, 3], queue=QUEUE)
    first, second, third = Message.objects.claim(3, queue=QUEUE)
    Message.objects.ack([first, second, third])
    Message.objects.filter(pk=second.pk).update(body="[")
    changed = Message.objects.done(QUEUE).send_again()
    assert changed == 2
    assert [type(error) for error in changed.conflicts] == [UndecodableMessage]
    assert f"message {second.pk}" in str(changed.conflicts[0])
    assert sorted(message.payload for message in Message.objects.ready(QUEUE)) == [1, 3]


def test_send_again_reports_the_message_whose_key_is_live_and_goes_on_with_the_others() -> None:
    first, second = done(key="k"), done(key="other")
    waiting(key="k")
    changed = Message.objects.done(QUEUE).send_again()
    assert changed == 1
    [conflict] = changed.conflicts
    assert isinstance(conflict, DuplicateKey)
    assert (conflict.message_id, conflict.key) == (first.pk, "k")
    assert Message.objects.ready(QUEUE).with_key(QUEUE, "other").get().headers == {"dbqueue.sent_again_from": second.pk}


def test_a_message_sent_again_twice_names_the_last_one() -> None:
    done()
    Message.objects.done(QUEUE).send_again()
    second = claim_one()
    second.ack()
    Message.objects.filter(pk=second.pk).send_again()
    assert claim_one().headers == {"dbqueue.sent_again_from": second.pk}


def test_the_old_holder_of_a_message_that_an_operator_moved_has_lost_it() -> None:
    for verb in ("requeue", "drop_all"):
        message = held()
        do(verb, Message.objects.filter(pk=message.pk))
        with pytest.raises(LeaseLost):
            message.ack()
        Message.objects.all().drop_all("clear")


@pytest.mark.parametrize("reason", ["", None, "a\0b", "\ud800", "x" * 70_000, 404, gettext_lazy("late")])
def test_any_reason_can_be_given_and_is_kept_as_far_as_it_can_be(reason: Any) -> None:
    dropped, rejected = waiting(), waiting()
    assert Message.objects.filter(pk=dropped.pk).drop_all(reason) == 1
    assert Message.objects.filter(pk=rejected.pk).reject_waiting(reason) == 1
    waiting(key="k")
    assert Message.objects.drop(QUEUE, "k", reason=reason)
    errors = set(Message.objects.values_list("error", flat=True))
    assert len(errors) == 1
    assert 0 < len(errors.pop()) <= 16_384
    Message.objects.all().purge()
    assert sorted(ArchivedMessage.objects.values_list("outcome", flat=True)) == ["dead", "dropped", "dropped"]


def test_an_undecodable_message_can_be_rejected_requeued_and_dropped_like_any_other() -> None:
    message = written_by_sql("{broken")
    assert Message.objects.filter(pk=message.pk).reject_waiting("broken") == 1
    assert Message.objects.filter(pk=message.pk).requeue() == 1
    assert Message.objects.filter(pk=message.pk).drop_all("broken") == 1


def test_send_again_does_not_send_again_what_it_has_just_sent() -> None:
    for _ in range(3):
        waiting()
    assert Message.objects.all().send_again() == 3
    assert Message.objects.count() == 6
