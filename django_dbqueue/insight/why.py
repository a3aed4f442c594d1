"""Why is it stuck? What keeps a message in its state, in words, with the evidence and with what can be done.

The pages of the admin and ``queue_peek --why`` give the same answer, because both ask here. It reads by primary keys,
bounded ranges of the claim index, and small tables; it changes nothing and locks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.consumers.near_queues import did_you_mean
from django_dbqueue.insight.after import holds_its_flow, why_it_is_after
from django_dbqueue.insight.answer import Why as Why
from django_dbqueue.insight.owners import Answer, Owner, owner_of, servers_of
from django_dbqueue.insight.suspended import suspension_of
from django_dbqueue.insight.turns import holds_its_group, stands_in_line, why_it_waits
from django_dbqueue.models.event import MessageEvent
from django_dbqueue.models.message import Message
from django_dbqueue.models.queue import Queue
from django_dbqueue.models.stream import StreamClaim
from django_dbqueue.statements.events_sql import CANCELLED, DEADLY
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.ranges_in_use import priorities_in_use
from django_dbqueue.states.spans import span
from django_dbqueue.states.spent import is_spent
from django_dbqueue.states.table import state_of
from django_dbqueue.statuses import NEW

MOST_COUNTED: Final = 1_000
"""Where counting of the messages ahead of one stops."""
UNDECODABLE: Final = "UndecodableMessage"


def why(message: Message, *, now: datetime, has_consumer: Callable[[str], bool | None]) -> Why:
    """Say why this message is where it is, at that moment of the database's clock.

    ``has_consumer`` returns whether the project has a consumer for a queue, or None if that isn't known.
    """
    match state_of(message, now).name:
        case "done":
            return _done(message)
        case "dead":
            answer = _dead(message)
            return replace(answer, evidence=answer.evidence + holds_its_group(message) + holds_its_flow(message))
        case "running" | "stuck":
            return _running(message, now)
        case "waiting":
            if (after := why_it_is_after(message)) is not None:
                return after
            suspension = None if stands_in_line(message) else suspension_of(message, message.available_at)
            return suspension or why_it_waits(message, now, _words_of(_paused(message.queue, message._state.db)))
        case "delayed":
            return suspension_of(message, message.available_at) or _not_due(message, message.available_at, now)
    return _waiting(message, now, has_consumer)


def _done(message: Message) -> Why:
    if message.error is None:
        return Why("done", _("It is not stuck: it is done."), verbs=("send-again",))
    text = _("It is not stuck: it was dropped, and marked done without being processed.")
    return Why("dropped", text, verbs=("send-again",), error=message.error)


# -- dead ---------------------------------------------------------------------------------------------------


def _dead(message: Message) -> Why:
    first = (message.error or "").partition("\n")[0]
    if first.partition(":")[0].rpartition(".")[2] == UNDECODABLE:
        return Why(
            "undecodable",
            _("Dead: its payload or its headers can't be decoded, so no consumer ever received it."),
            verbs=("drop", "requeue"),
            advice=_("The sender has to send it again. If it is requeued as it is, it ends up here again."),
            error=message.error,
        )
    deaths = MessageEvent.objects.using(message._state.db).filter(message_id=message.pk, kind__in=DEADLY)
    by, kind = deaths.order_by("-id").values_list("actor", "kind").first() or (None, "")
    if kind == CANCELLED:
        text = _("Dead: %(by)s cancelled it.") % {"by": by} if by else _("Dead: its sender cancelled it.")
        return Why("cancelled", text, verbs=("requeue", "send-again", "drop"), error=message.error)
    if is_spent(message.read_count, message.max_reads):
        text = _("Dead after %(reads)d of %(limit)d deliveries.") % {
            "reads": message.read_count,
            "limit": message.max_reads,
        }
        return Why(
            "reads_spent", text, verbs=("requeue", "send-again", "drop"), error=message.error,
            advice=_("Fix the cause first. When it is requeued, it is delivered as if new."),
        )  # fmt: skip
    text = _("Dead: %(by)s rejected it.") % {"by": by} if by else _("Dead: its consumer rejected it.")
    return Why("rejected", text, verbs=("requeue", "send-again", "drop"), error=message.error)


# -- waiting ------------------------------------------------------------------------------------------------


def _not_due(message: Message, due: datetime, now: datetime) -> Why:
    text = _("It is delayed: it is due in %(span)s, at %(moment)s.") % {
        "span": span(due - now),
        "moment": f"{due:%Y-%m-%d %H:%M:%S} UTC",
    }
    evidence = [_("It has failed %(reads)d times; this is the delay before the next attempt.")] if message.error else []
    paused = _paused(message.queue, message._state.db)
    verbs = (*(["resume"] if paused else []), *(["due-now"] if message.due_at > now else []), "reject", "drop")
    return Why(
        "not_due", text, tuple(line % {"reads": message.read_count} for line in evidence) + _words_of(paused),
        verbs=verbs, error=message.error,
    )  # fmt: skip


def _paused(queue: str, using: str | None) -> Queue | None:
    row: Queue | None = Queue.objects.using(using).filter(pk=queue, is_paused=True).first()
    return row


def _words_of(queue: Queue | None) -> tuple[str, ...]:
    if queue is None:
        return ()
    words = {
        "queue": queue.name,
        "by": queue.paused_by or _("somebody"),
        "reason": queue.pause_reason or _("no reason given"),
        "since": "–" if queue.paused_at is None else f"{queue.paused_at:%Y-%m-%d %H:%M:%S} UTC",
    }
    line = _("The queue %(queue)s has been paused since %(since)s, by %(by)s: %(reason)s") % words
    if queue.paused_until is None:
        return (line,)
    end = _("The pause ends at %(moment)s; then claims continue automatically.")
    return (line, end % {"moment": f"{queue.paused_until:%Y-%m-%d %H:%M:%S} UTC"})


def _waiting(message: Message, now: datetime, has_consumer: Callable[[str], bool | None]) -> Why:
    session, queue = message._session, message.queue
    paused = _paused(queue, session.using)
    if paused is not None:
        text = _("It waits because its queue is paused: nothing is claimed from it.")
        return Why("paused", text, _words_of(paused), verbs=("resume", "reject", "drop"), error=message.error)
    servers = servers_of(queue, session, now)
    if not servers.alive:
        return _unserved(message, servers.without_beats, has_consumer(queue))
    before = _count_before(message)
    if before == 0:
        text = _("It is next: it has been due for %(span)s, and will be claimed first.")
        code, advice = "next", _("If it stays here, check whether the workers of the queue are busy or hang.")
    else:
        text = ngettext(
            "It waits for its turn: it has been due for %(span)s, and %(count)s message of its queue is ahead of it.",
            "It waits for its turn: it has been due for %(span)s, and %(count)s messages of its queue are ahead of it.",
            before,
        )
        code, advice = "queued", _("More workers, or more threads, process the queue faster.")
    shown = Capped(before, MOST_COUNTED)
    due = message.available_at or now
    return Why(
        code, text % {"span": span(now - due), "count": shown}, servers.alive, verbs=("reject", "drop"), advice=advice,
        error=message.error,
    )  # fmt: skip


def _unserved(message: Message, without_beats: tuple[str, ...], has_consumer: bool | None) -> Why:
    queue = message.queue
    start = _("Start one: manage.py run_queue_worker --queues %(queue)s") % {"queue": queue}
    if without_beats:
        code, text = "workers_silent", _("It waits: the workers that served its queue have stopped sending heartbeats.")
    elif has_consumer is False:
        code = "no_consumer"
        text = _("It waits: no consumer is registered for its queue, so no worker can serve it.") + did_you_mean(queue)
        start = _('Write a function with @consumer("%(queue)s") in a module queue_consumers of an app; then: ') % {
            "queue": queue
        } + _("manage.py run_queue_worker --queues %(queue)s") % {"queue": queue}
    else:
        code, text = "no_worker", _("It waits: no worker serves its queue.")
    return Why(code, text, without_beats, verbs=("reject", "drop"), advice=start, error=message.error)


def _count_before(message: Message) -> int:
    """Count the ready messages that a claim takes before this one, up to one more than the cap."""
    session = message._session
    ready, count = Message.objects.using(session.using).ready(message.queue), 0
    due = message.available_at
    for priority in priorities_in_use(session, message.queue, NEW):
        rows = ready.filter(priority=priority)
        if priority > message.priority:
            parts = [rows]
        elif priority == message.priority:
            parts = [rows.filter(available_at__lt=due), rows.filter(available_at=due, pk__lt=message.pk)]
        else:
            break
        for part in parts:
            left = MOST_COUNTED + 1 - count
            count += len(part.order_by("available_at", "id").values_list("id", flat=True)[:left]) if left else 0
    return count


# -- running ------------------------------------------------------------------------------------------------


def _running(message: Message, now: datetime) -> Why:
    StreamClaim.objects.using(message._state.db).join([message])
    owner = owner_of(message, now)
    until = message.lease_until or now
    lease = (_("Its lease expires in %(span)s.") if until > now else _("Its lease expired %(span)s ago.")) % {
        "span": span(abs(until - now))
    }
    evidence = (*owner.evidence, lease)
    words = {"span": span(now - (message.claimed_at or now)), "owner": owner.name}
    if owner.is_stream:
        return _in_stream(message, owner, evidence, words, is_expired=until <= now)
    if until <= now:
        served = bool(servers_of(message.queue, message._session, now).alive)
        return Why(
            "lease_over",
            _("It is stuck: its lease has expired, and its holder, %(owner)s, has not settled it.") % words,
            evidence,
            verbs=("requeue", "release", "drop"),
            advice=_("A worker that serves the queue rescues it automatically within two seconds.")
            if served
            else _("No worker serves the queue, so nothing rescues it: start a worker, or run manage.py queue_rescue."),
            error=message.error,
        )
    if owner.answer is Answer.GONE:
        return Why(
            "owner_gone",
            _("According to its row it is running, but its holder, %(owner)s, is gone.") % words, evidence,
            verbs=("requeue", "release"), error=message.error,
            advice=_(
                "It comes back automatically, when a worker has found that the holder is gone, or when its lease "
                "expires."
            ),
        )  # fmt: skip
    if owner.answer is Answer.NO_HEARTBEAT:
        return Why(
            "owner_silent",
            _("It is running, but its holder, %(owner)s, has stopped sending heartbeats.") % words, evidence,
            verbs=("requeue", "release"), error=message.error,
            advice=_("It comes back automatically when its lease expires."),
        )  # fmt: skip
    return Why(
        "running", _("It is not stuck: %(owner)s has been working on it for %(span)s.") % words, evidence,
        verbs=("cancel", "release", "requeue"), error=message.error,
        advice=_("If the holder hangs, cancel the message, or release it: then another holder runs it from the start."),
    )  # fmt: skip


def _in_stream(
    message: Message, owner: Owner, evidence: tuple[str, ...], words: dict[str, str], *, is_expired: bool
) -> Why:
    if not is_expired:
        text = _("It is held by a consuming stream of Spark: %(owner)s has held it for %(span)s.") % words
        return Why("stream", text, evidence, verbs=("release", "requeue"), advice=owner.advice, error=message.error)
    text = (
        _("It is stuck: %(owner)s, a consuming stream of Spark, holds it, and the lease of that claim has expired.")
        % words
    )
    return Why("stream_over", text, evidence, verbs=("requeue", "release"), advice=owner.advice, error=message.error)
