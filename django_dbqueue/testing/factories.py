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
from django_dbqueue.envelope import Envelope
from django_dbqueue.lifecycle.claim import claim_by_id
from django_dbqueue.lifecycle.django_session import session_of
from django_dbqueue.lifecycle.enqueue import seal_for
from django_dbqueue.models import Message

LATER: Final = timedelta(hours=1)
"""When a message in the state *delayed* is due by default."""
STATES: Final = ("ready", "delayed", "running", "stuck", "done", "dead")


class MessageFactory(Factory[Message]):
    """``MessageFactory(queue="emails", payload={"to": "ann"}, state="dead")``.

    ``state`` is ready (as enqueued; the default), delayed, running, stuck, done or dead; a message that is running or
    stuck is returned as its holder has it. ``reason`` is why a dead one was rejected. Everything else goes to
    ``enqueue``: key, delay, at, priority, max_reads, lease, headers, on_conflict, using. ``MessageFactory.build()``
    makes one that is in no database, for calling a consumer directly.
    """

    class Meta:
        model = Message

    payload = Sequence(lambda number: {"number": number})  # type: ignore[no-untyped-call]
    queue = "default"

    @classmethod
    def _create(cls, model_class: type[Message], *_: object, **said: Any) -> Message:
        state, reason = said.pop("state", "ready"), said.pop("reason", "made dead for a test")
        if state not in STATES:
            raise ValueError(f"state must be one of {', '.join(STATES)}, not {state!r}.")
        if state == "delayed" and said.get("delay") is None and said.get("at") is None:
            said["delay"] = LATER
        message = model_class.objects.enqueue(said.pop("payload"), **said)
        if state in ("ready", "delayed"):
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
    def _build(cls, model_class: type[Message], *_: object, **said: Any) -> Message:
        queue = said.pop("queue")
        sealed = seal_for(Envelope(**said), queue)
        return model_class(
            queue=queue,
            key=sealed.key,
            key_hash=sealed.key_hash,
            body=sealed.body,
            content_type=sealed.content_type,
            headers_text=sealed.headers,
            priority=sealed.priority,
            max_reads=sealed.max_reads,
            lease_seconds=sealed.lease_seconds,
        )


def _claimed(message: Message) -> Message:
    options = conf.queue_options(message.queue)
    alias = message._state.db or ""
    held = claim_by_id(Message, session_of(alias), message.pk, lease=options.lease, max_reads=options.max_reads)
    if held is None:
        raise ValueError(f"Message {message.pk} can't be claimed: its key is that of a message that is running.")
    assert isinstance(held, Message)
    return held
