"""Why a message of a flow waits: which ones before it have not ended, the dead first; and who waits for a dead one."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.insight.answer import Why
from django_dbqueue.lifecycle import flows_sql
from django_dbqueue.lifecycle.flows_sql import WHEN_DEAD, WHEN_DONE
from django_dbqueue.models.message import Message
from django_dbqueue.states.counts import Capped

MOST_COUNTED: Final = 1_000
"""Where counting of those before it stops."""
NAMED: Final = 5
"""Messages before it that are named."""


def why_it_is_after(message: Message) -> Why | None:
    """Say for whom a message of a flow waits; None if it waits for nobody of its flow."""
    if message.flow is None:
        return None
    session = message._session
    if not session.fetch(flows_sql.has_gate(session.server, message.pk)):
        return None
    before = session.fetch(flows_sql.waited_for(session.server, message.pk, MOST_COUNTED + 1))
    if not before:
        return Why(
            "after_nobody", _("It waits for others of its flow, and all of them have ended."), verbs=("reject", "drop"),
            advice=_("A worker lets it run within half a minute. If it stays here, start a worker."),
        )  # fmt: skip
    number, _status, is_dead, needs = before[0]
    others = [f"#{row[0]}" for row in before[1:NAMED]]
    evidence = [_("Also before it: %(messages)s") % {"messages": ", ".join(others)}] if others else []
    text = ngettext(
        "%(count)s message of its flow has not ended as it wants.",
        "%(count)s messages of its flow have not ended as it wants.",
        len(before),
    )
    evidence.append(text % {"count": Capped(len(before), MOST_COUNTED)})
    if is_dead and needs == WHEN_DONE:
        return Why(
            "after_dead", _("It waits for #%(id)s, which is dead.") % {"id": number}, tuple(evidence),
            verbs=("reject", "drop"), behind=number, error=message.error,
            advice=_("Requeue or drop #%(id)s: then the flow continues.") % {"id": number},
        )  # fmt: skip
    wanted = _("It waits until #%(id)s is dead.") if needs == WHEN_DEAD else _("It waits for #%(id)s of its flow.")
    sentence = wanted % {"id": number}
    return Why("after", sentence, tuple(evidence), verbs=("reject", "drop"), behind=number, error=message.error)


def holds_its_flow(message: Message) -> tuple[str, ...]:
    """Say that others wait for a dead message, if they do."""
    if message.flow is None:
        return ()
    session = message._session
    needs = session.fetch(flows_sql.needs_of_waiters_for(session.server, [message.pk]))
    waiting = sorted(row[0] for row in needs if row[1] == WHEN_DONE)
    if not waiting:
        return ()
    text = ngettext(
        "%(count)s message of its flow waits for it, and continues when it is requeued, dropped or purged: "
        "%(messages)s.",
        "%(count)s messages of its flow wait for it, and continue when it is requeued, dropped or purged: "
        "%(messages)s.",
        len(waiting),
    )
    named = ", ".join(f"#{each}" for each in waiting[:NAMED]) + (" …" if len(waiting) > NAMED else "")
    return (text % {"count": len(waiting), "messages": named},)
