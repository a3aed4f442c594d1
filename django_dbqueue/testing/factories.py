"""Messages in every state, made by the package's own verbs. Needs factory-boy (the extra ``testing``)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

try:
    from factory.base import Factory
    from factory.declarations import Sequence
except ImportError as error:
    raise ImportError(
        "django_dbqueue.testing.MessageFactory needs factory-boy: pip install 'django-dbqueue[testing]'"
    ) from error

from django_dbqueue import conf
from django_dbqueue.envelope import WHOLE_QUEUE, Envelope
from django_dbqueue.insight.groups import group_of, overview_of
from django_dbqueue.lifecycle.claimer import claim_by_id
from django_dbqueue.lifecycle.enqueue import SENT_ATTRIBUTES, seal_for
from django_dbqueue.models import Message
from django_dbqueue.models.aliases import db_alias
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.settable.option_table import WIDEST
from django_dbqueue.states.table import STATES, Stage

LATER: Final = timedelta(hours=1)
"""When a message in the state *delayed* is due by default."""
GROUP: Final = "a busy group"
"""Of a message in the state *waiting*, by default."""


class MessageFactory(Factory[Message]):
    """``MessageFactory(queue="emails", payload={"to": "ann"}, state="dead")``.

    ``state`` is ready (as enqueued; the default), delayed, waiting, running, stuck, done or dead; a message that is
    running or stuck is returned as its holder has it. ``reason`` is why a dead one was rejected. Everything else goes
    to ``enqueue``: key, delay, at, priority, max_reads, lease, headers, group, on_conflict, using.
    ``MessageFactory.build()`` makes one that is in no database, for calling a consumer directly.

    A message waits if as many of its group as may are running: those that are missing are made too, as running ones. To
    be running, stuck, done or dead, a message of a group needs no turn: it is claimed even if its group's limit is
    reached.
    """

    class Meta:
        model = Message

    payload = Sequence(lambda number: {"number": number})  # type: ignore[no-untyped-call]
    queue = "default"

    @classmethod
    def _create(cls, model_class: type[Message], *_: object, **given: Any) -> Message:
        state, reason = given.pop("state", "ready"), given.pop("reason", "made dead for a test")
        if state not in STATES:
            raise ValueError(f"state must be one of {', '.join(STATES)}, not {state!r}.")
        if state == "delayed" and given.get("delay") is None and given.get("at") is None:
            given["delay"] = LATER
        if state == "waiting":
            _keep_busy(model_class, given)
        message = model_class.objects.enqueue(given.pop("payload"), **given)
        if state in Stage.UNCLAIMED.states:
            return message
        held = _claimed(message)
        if state == "stuck":
            held.extend(0)
        elif state == "done":
            held.ack()
        elif state == "dead":
            held.reject(reason)
        return held

    @classmethod
    def _build(cls, model_class: type[Message], *_: object, **given: Any) -> Message:
        queue = given.pop("queue")
        written: dict[str, Any] = dict(zip(SENT_ATTRIBUTES, seal_for(Envelope(**given), queue), strict=False))
        return model_class(**written)


def _keep_busy(model_class: type[Message], given: dict[str, Any]) -> None:
    """Let as many messages of a group run as may, so that the next one waits."""
    queue, using = given["queue"], given.get("using") or db_alias(model_class)
    is_whole = conf.for_senders(queue).is_whole_queue
    name = WHOLE_QUEUE if is_whole else given.setdefault("group", GROUP)
    group = group_of(session_of(using), queue, name)
    seen = overview_of(session_of(using), group, cap=WIDEST)
    for _ in range(0 if group.is_paused else seen.limit - seen.out):
        _claimed(
            model_class.objects.enqueue("before the one that waits", queue=queue, group=given.get("group"), using=using)
        )


def _claimed(message: Message) -> Message:
    options = conf.queue_options(message.queue)
    alias = message._state.db or ""
    held = claim_by_id(Message, session_of(alias), message.pk, lease=options.lease, max_reads=options.max_reads)
    if held is None:
        raise ValueError(f"Message {message.pk} can't be claimed: its key is that of a message that is running.")
    assert isinstance(held, Message)
    return held
