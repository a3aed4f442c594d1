"""The forms that operators fill in before messages are moved, or a queue or a group is changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_dbqueue import conf
from django_dbqueue.admin import display
from django_dbqueue.consumers.near_queues import did_you_mean
from django_dbqueue.consumers.registry import has_consumer
from django_dbqueue.envelope import check_moment, check_seconds
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.insight.overview import known_queues
from django_dbqueue.models.fields import clock
from django_dbqueue.operations.verbs import Verb, check_target
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.settable.option_table import WIDEST
from django_dbqueue.settable.rates import FASTEST, WrongRate, interval_of
from django_dbqueue.typed_values import typed_span

EXAMPLE = "2026-12-01 08:00"


class ReasonForm(forms.Form):
    """Why messages are removed from their queue, or a queue is paused."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=500,
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
    )


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
            end = _end(text)
        except (ValueError, InvalidMessage):
            raise ValidationError(
                _("This is neither a duration above 0, such as 2h, nor a date and time, such as %(example)s."),
                params={"example": EXAMPLE},
            ) from None
        if "until" in end and end["until"] <= (now := clock(self._using)):
            raise ValidationError(
                _("%(end)s UTC has passed: it is %(now)s UTC by the database's clock."),
                params={"end": display.utc(end["until"]), "now": display.utc(now)},
            )
        return end


def _end(text: str) -> dict[str, Any]:
    if (seconds := typed_span(text)) is None:
        moment = datetime.fromisoformat(text.removesuffix("UTC").strip())
        return {"until": check_moment(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)}
    if not check_seconds("for_", seconds):
        raise ValueError(text)
    return {"for_": seconds}


class TargetForm(forms.Form):
    """A queue that is known, or one that is to be new."""

    queue = forms.CharField(
        label=gettext_lazy("To queue"),
        max_length=64,
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
    )
    create = forms.BooleanField(label=gettext_lazy("Allow a queue that doesn't exist yet"), required=False)

    def __init__(self, *args: Any, using: str) -> None:
        super().__init__(*args)
        self._using = using

    def clean(self) -> dict[str, Any]:
        """Refuse a name that no queue can have, or that none has."""
        answers = self.cleaned_data
        if "queue" not in answers:
            return answers
        try:
            name = check_target(answers["queue"])
        except InvalidMessage as error:
            self.add_error("queue", str(error))
            return answers
        if not answers["create"] and (why := why_unknown(name, self._using)):
            self.add_error("queue", why)
        return answers


def why_unknown(name: str, using: str) -> str:
    """Say that there is no such queue, and which may be meant; '' if it is known."""
    known = {*conf.get("QUEUES"), *known_queues(session_of(using))}
    if name in known or has_consumer(name):
        return ""
    text = _("There is no queue %(queue)r: it has no messages, no worker and no queue row.") % {"queue": name}
    return text + did_you_mean(name, known)


class LimitForm(forms.Form):
    """How many messages of a group may run at once; nothing: as many as for its queue."""

    limit = forms.IntegerField(
        label=gettext_lazy("Limit"),
        help_text=gettext_lazy("How many of its messages may run at once. Empty: as many as for its queue."),
        min_value=1,
        max_value=WIDEST,
        required=False,
        widget=forms.NumberInput(attrs={"class": "vIntegerField", "autofocus": True}),
    )


class RateForm(forms.Form):
    """How many messages of a group may start in a time; nothing: as many as for its queue."""

    rate = forms.CharField(
        label=gettext_lazy("Rate"),
        help_text=gettext_lazy(
            "How many of its messages may start: 10/s, 100/m or 5000/h. Empty: as many as for its queue."
        ),
        max_length=16,
        required=False,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off"}),
    )

    def clean_rate(self) -> str | None:
        """Return the rate, or None for none of its own."""
        rate: str = self.cleaned_data["rate"]
        if not rate:
            return None
        try:
            interval_of(rate)
        except WrongRate:
            raise ValidationError(
                _(
                    "Enter how many may start in a second, a minute or an hour, such as 10/s, 100/m or 5000/h, "
                    "up to %(fastest)s/s."
                ),
                params={"fastest": FASTEST},
            ) from None
        return rate


def form_of(verb: Verb, using: str, *data: Any) -> forms.Form | None:
    """Return the form of a verb, with what was sent if it was; None if it asks nothing."""
    if verb.asks_queue:
        return TargetForm(*data, using=using)
    return ReasonForm(*data) if verb.asks_reason else None
