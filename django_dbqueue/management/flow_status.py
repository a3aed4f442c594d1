"""What ``queue_status --flows`` shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue.flows.flow_progress import SHOWN, Progress
from django_dbqueue.management.console import iso, plain, table
from django_dbqueue.models import Flow
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import grouped
from django_dbqueue.states.spans import span

LISTED: Final = 50
"""Flows that are shown, the newest first."""


@dataclass(frozen=True, slots=True)
class FlowsReport:
    """The result of one look at the newest flows."""

    at: datetime
    flows: list[tuple[Flow, Progress]]

    @classmethod
    def of(cls, session: DjangoSession) -> FlowsReport:
        """Look at the newest flows."""
        newest = Flow.objects.using(session.using).order_by("-pk")[:LISTED]
        return cls(clock(session.using), [(flow, flow.progress(most=SHOWN)) for flow in newest])

    def document(self, alias: str) -> dict[str, object]:
        """Return it for programs."""
        flows = [
            {
                "id": flow.pk,
                "name": flow.name,
                "created_at": iso(flow.created_at),
                "total": seen.total,
                "counted": seen.counted,
                "finished": seen.finished,
                "dead": seen.dead,
                "left": seen.left,
                "stages": [stage._asdict() for stage in seen.stages],
            }
            for flow, seen in self.flows
        ]
        return {"database": alias, "at": iso(self.at), "flows": flows}

    def lines(self) -> list[str]:
        """Return it for people."""
        if not self.flows:
            return [_("There are no flows.")]
        head = [_("FLOW"), _("ENDED"), _("OF"), _("LEFT"), _("DEAD"), _("AGE"), _("NAME")]
        rows = [
            [
                f"#{flow.pk}", grouped(seen.finished), grouped(seen.total), grouped(seen.left), grouped(seen.dead),
                span(self.at - flow.created_at), plain(flow.name),
            ]
            for flow, seen in self.flows
        ]  # fmt: skip
        return table(head, rows, left=(len(head) - 1,))
