"""Why an operator pauses a queue, and for how long or until when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_dbqueue.admin import display
from django_dbqueue.admin.reason import ReasonForm
from django_dbqueue.envelope import check_moment, check_seconds
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.models.fields import clock
from django_dbqueue.typed_values import typed_span

EXAMPLE = "2026-12-01 08:00"


class PauseForm(ReasonForm):
    """The reason, and the end, if the pause has one."""

    end = forms.CharField(
        label=gettext_lazy("For how long, or until when"),
        max_length=40,
        required=False,
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, using: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._using = using
        self.fields["end"].help_text = _(
            "90s, 15m, 2h or 7d; or a date and time in UTC, such as %(example)s. Empty: until the queue is resumed. "
            "It is %(now)s UTC now."
        ) % {"example": EXAMPLE, "now": display.utc(clock(using))}

    def clean_end(self) -> dict[str, Any]:
        """Return what ``Queue.objects.pause`` takes: nothing, ``for_`` or ``until``."""
        text = self.cleaned_data["end"].strip()
        if not text:
            return {}
        try:
            said = _end(text)
        except (ValueError, InvalidMessage):
            raise ValidationError(
                _("This is neither a duration above 0, such as 2h, nor a date and time, such as %(example)s."),
                params={"example": EXAMPLE},
            ) from None
        if "until" in said and said["until"] <= (now := clock(self._using)):
            raise ValidationError(
                _("%(end)s UTC has passed: it is %(now)s UTC by the database's clock."),
                params={"end": display.utc(said["until"]), "now": display.utc(now)},
            )
        return said


def _end(text: str) -> dict[str, Any]:
    if (seconds := typed_span(text)) is None:
        moment = datetime.fromisoformat(text.removesuffix("UTC").strip())
        return {"until": check_moment(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)}
    if not check_seconds("for_", seconds):
        raise ValueError(text)
    return {"for_": seconds}
