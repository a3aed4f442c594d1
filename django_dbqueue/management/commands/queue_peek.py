"""``manage.py queue_peek``: look at the next messages of a queue without claiming them."""

from __future__ import annotations

import base64
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable
from datetime import datetime
from difflib import get_close_matches
from typing import Final, NamedTuple

from django.utils import translation
from django.utils.translation import gettext as _

from django_dbqueue.consumers.near_queues import did_you_mean
from django_dbqueue.consumers.registry import has_consumer
from django_dbqueue.envelope import check_queue
from django_dbqueue.insight.cursors import cursor_text
from django_dbqueue.insight.why import Why, why
from django_dbqueue.management.common_options import Options, whole
from django_dbqueue.management.console import EXIT_NOTHING, ConsoleCommand, iso, plain
from django_dbqueue.models import Message, Step, StreamClaim
from django_dbqueue.models.fields import clock
from django_dbqueue.redaction.policy import content_of, error_text, is_redacting
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements.steps_sql import CURSOR, EVENT, SLEEP, STEP, TIMED_OUT, WAIT
from django_dbqueue.states.ranges_in_use import queues_in_use
from django_dbqueue.states.table import STATES, state_of
from django_dbqueue.tasks.task_headers import task_named

MAX_LIMIT: Final = 1_000
SHOWN: Final = 2_000
"""Characters of a payload shown in a line of text; --json has all of it."""
MOMENTS: Final = ("available_at", "due_at", "created_at", "claimed_at", "finished_at")
COLUMNS: Final = (
    "id", "queue", "group", "flow", "key", "priority", "read_count", "max_reads", "crashes", "worker_id", "conn_id",
)  # fmt: skip


class Shown(NamedTuple):
    """What of a message is shown besides its columns, if it was asked for."""

    with_payload: bool
    reason: Why | None
    steps: list[Step] | None


def _state(text: str) -> str:
    if text not in STATES:
        near = get_close_matches(text.lower(), STATES, n=1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise ArgumentTypeError(f"there is no state {text!r};{hint} the states are {', '.join(STATES)}")
    return text


class Command(ConsoleCommand):
    """Look, and change nothing.

    Exit codes: 0 something was shown; 1 the database or the queue's tables can't be read; 2 wrong options; 3 there is
    nothing to show.
    """

    only_reads = True
    help = "Show the next messages of a queue without claiming them."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("queue", help="the queue's name")
        parser.add_argument(
            "--key", help="only messages with this key; without --state, the live one, whatever its state"
        )
        parser.add_argument(
            "--limit", type=whole(1, MAX_LIMIT), default=10, help="show at most this many messages (default: 10)"
        )
        parser.add_argument("--state", type=_state, help=f"one of {', '.join(STATES)} (default: ready)")
        parser.add_argument(
            "--payload", action="store_true", help="show payloads and headers, which may contain secrets"
        )
        parser.add_argument(
            "--steps", action="store_true", help="show the steps that each message's handler has done, or rests in"
        )
        parser.add_argument(
            "--why", action="store_true", help="explain why each message is in its state, and what can be done"
        )

    def act(self, session: DjangoSession, options: Options) -> None:
        messages = self._find(session, check_queue(options["queue"]), options)
        now = clock(session.using)
        StreamClaim.objects.using(session.using).join(messages)
        reasons = _reasons(messages, now) if options["why"] else {}
        steps = _steps_by_message(session.using, [message.pk for message in messages]) if options["steps"] else None
        for message in messages:
            show = _as_json if options["json"] else _as_text
            shown = Shown(options["payload"], reasons.get(message.pk), None if steps is None else steps[message.pk])
            self.stdout.write(show(message, state_of(message, now).name, shown))
        if not messages:
            self.stderr.write(_nothing(options) + did_you_mean(options["queue"], queues_in_use(session)))
            sys.exit(EXIT_NOTHING)

    def _find(self, session: DjangoSession, queue: str, options: Options) -> list[Message]:
        rows = Message.objects.using(session.using)
        if not (options["payload"] or is_redacting()):  # masking an error needs the payload
            rows = rows.defer("body")
        if options["key"] is None:
            next_ones: list[Message] = rows.peek(queue, state=options["state"] or "ready", limit=options["limit"])
            return next_ones
        if options["state"] is None:
            live = rows.get_by_key(queue, options["key"])
            return [] if live is None else [live]
        found = rows.with_key(queue, options["key"]).in_state(options["state"], queue)
        return list(found.order_by("-live", "-id")[: options["limit"]])  # in the order of the key's own index


def _nothing(options: Options) -> str:
    where = {
        "queue": options["queue"],
        "state": options["state"] or ("live" if options["key"] is not None else "ready"),
    }
    if options["key"] is not None:
        return _("No message of queue %(queue)r with this key is %(state)s.") % where
    return _("No message of queue %(queue)r is %(state)s.") % where


def _reasons(messages: list[Message], now: datetime) -> dict[int, Why]:
    return {message.pk: why(message, now=now, has_consumer=has_consumer) for message in messages}


def _as_json(message: Message, state: str, wanted: Shown) -> str:
    shown: dict[str, object] = {"state": state, **{name: getattr(message, name) for name in COLUMNS}}
    shown["task"] = task_named(message.headers_text)
    if (reason := wanted.reason) is not None:
        shown["why"] = {
            name: getattr(reason, name) for name in ("code", "text", "evidence", "verbs", "advice", "behind")
        }
    shown |= {name: iso(getattr(message, name)) for name in MOMENTS}
    with translation.override(None):  # programs read it as it is stored
        shown["error"] = _first_line(message)
    if wanted.steps is not None:
        shown["steps"] = [{**_step_as_json(step), **_cursor(message, step, wanted)} for step in wanted.steps]
    if wanted.with_payload:
        content = content_of(message)
        shown["content_type"] = message.content_type
        if content.hidden:
            shown["hidden"] = content.hidden
        elif broken := content.payload_broken or content.headers_broken:
            shown["undecodable"] = broken
        else:
            payload = content.payload
            shown["headers"] = content.headers
            shown["payload"] = base64.b64encode(payload).decode() if isinstance(payload, bytes) else payload
    return json.dumps(shown)


def _as_text(message: Message, state: str, wanted: Shown) -> str:
    labels = {"running": _("lease until"), "stuck": _("lease until"), "done": _("ended"), "dead": _("ended")}
    moment = message.finished_at if state in {"done", "dead"} else message.lease_until
    reads = f"{message.read_count}/{message.max_reads}" if message.max_reads else str(message.read_count)
    if state == "waiting":
        moment = message.due_at
    what = labels.get(state, _("due"))  # outside the f-string, which makemessages doesn't read
    parts = [f"#{message.pk}", state, f"{what} {iso(moment)}"]
    parts += [_("priority %(priority)s") % {"priority": message.priority}, _("reads %(reads)s") % {"reads": reads}]
    if (task := task_named(message.headers_text)) is not None:
        parts.append(_("task %(task)s") % {"task": plain(task)})
    if message.group is not None:
        parts.append(_("group %(group)r") % {"group": message.group})
    if message.flow is not None:
        parts.append(_("flow #%(flow)s") % {"flow": message.flow})
    if message.key is not None:
        parts.append(_("key %(key)r") % {"key": message.key})
    if message.error is not None:
        parts.append(_("error %(error)r") % {"error": _first_line(message)})
    lines = ["  ".join(parts)]
    if (reason := wanted.reason) is not None:
        lines += [f"    {plain(line)}" for line in (reason.text, *reason.evidence, reason.advice) if line]
        lines += ["    " + _("What can be done: %(verbs)s") % {"verbs": ", ".join(reason.verbs)}]
    for step in wanted.steps or ():
        lines.append(f"    {plain(_step_as_text(step))}")
        if cursor := _cursor(message, step, wanted):
            lines.append("        " + plain(_("cursor %(cursor)s") % cursor))
    if wanted.with_payload:
        lines += [f"    {line}" for line in _content(message)]
    return "\n".join(lines)


def _content(message: Message) -> list[str]:
    content = content_of(message)
    if content.hidden:
        return [content.hidden]
    if broken := content.payload_broken or content.headers_broken:
        return [_("can't be decoded: %(error)s") % {"error": broken}]
    # repr, so that what others wrote can't control the terminal
    return [_cut(repr(part)) for part in (content.payload, *filter(None, [content.headers]))]


def _first_line(message: Message) -> str | None:
    if message.error is None:
        return None
    # Anyone with a shell next to the database sees everything except what is redacted for all.
    text = error_text(message.error, of=message if is_redacting() else None, sees_payload=True)
    return (text.splitlines() or [""])[0][:500]


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"


def _steps_by_message(alias: str, ids: Iterable[int]) -> dict[int, list[Step]]:
    """Return the steps of each of these messages, in order of time."""
    found: dict[int, list[Step]] = {message_id: [] for message_id in ids}
    for step in Step.objects.using(alias).filter(message_id__in=found).order_by("message_id", "at", "name"):
        found[step.message_id].append(step)
    return found


def _step_as_json(step: Step) -> dict[str, object]:
    """Return a step for programs; its result is left out."""
    moments = {"at": iso(step.at), "until": None if step.until is None else iso(step.until)}
    return {"name": step.name, "kind": step.kind, "read_count": step.read_count, **moments}


def _cursor(message: Message, step: Step, wanted: Shown) -> dict[str, str]:
    """Return where a step in progress will continue, if payloads are shown: it may quote them."""
    is_shown = wanted.with_payload and step.kind == CURSOR
    return {"cursor": cursor_text(message.queue, step)} if is_shown else {}


def _step_as_text(step: Step) -> str:
    """Return a step as a line."""
    kinds = {
        STEP: _("step done"),
        CURSOR: _("step in progress"),
        SLEEP: _("sleep until %(until)s"),
        WAIT: _("waits for event %(event)r"),
        EVENT: _("event received"),
        TIMED_OUT: _("wait timed out"),
    }
    words = {"until": "" if step.until is None else iso(step.until), "event": step.body}
    delivery = _("delivery %(number)d") % {"number": step.read_count}
    what = kinds[step.kind] % words if step.kind in kinds else step.kind
    return f"{step.name!r}  {what}  {iso(step.at)}  {delivery}"
