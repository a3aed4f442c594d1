"""The form of a schedule that an operator adds or changes: every field says what is wrong with it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_dbqueue import conf
from django_dbqueue.admin.forms import why_unknown
from django_dbqueue.codecs import Json, decode_json
from django_dbqueue.consumers import registry
from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import DBQueueError, InvalidSchedule, UndecodableMessage
from django_dbqueue.keys import MAX_KEY_LENGTH, check_key
from django_dbqueue.models import Schedule
from django_dbqueue.redaction.policy import content_of, is_redacting
from django_dbqueue.schedules import cron, declarations
from django_dbqueue.schedules.declarations import Plan

_log = logging.getLogger("django_dbqueue")
MISSED_LABELS = (
    ("latest", gettext_lazy("enqueue the latest one")),
    ("all", gettext_lazy("enqueue each, up to 100")),
    ("skip", gettext_lazy("skip them")),
)
Checked = TypeVar("Checked")
_WIDE = {"class": "vTextField"}


def declared_plans() -> dict[str, Plan]:
    """Return the schedules that the code declares, by name; none if the consumers can't be imported here, or read."""
    try:
        registry.autodiscover()
        return {plan.name: plan for plan in registry.plans()}
    except Exception:
        _log.warning("not all schedules of the code could be read", exc_info=True)
        return {}


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]
    """``using``, ``sees_payload`` and ``plan``, what was sent once it is valid, belong to the page."""

    using = ""
    sees_payload = False

    queue = forms.CharField(label=gettext_lazy("Queue"), max_length=64, widget=forms.TextInput(attrs=_WIDE))
    create = forms.BooleanField(label=gettext_lazy("Allow a queue that doesn't exist yet"), required=False)
    cron = forms.CharField(
        label=gettext_lazy("Cron expression"),
        max_length=cron.MAX_LENGTH,
        widget=forms.TextInput(attrs=_WIDE),
        help_text=gettext_lazy(
            "Five fields: minute, hour, day of month, month, day of week. With six, the first is the second."
        ),
    )
    timezone = forms.CharField(
        label=gettext_lazy("Time zone"),
        max_length=64,
        required=False,
        widget=forms.TextInput(attrs=_WIDE),
        help_text=gettext_lazy("Such as UTC or Europe/Berlin; empty: the project's."),
    )
    missed = forms.ChoiceField(
        label=gettext_lazy("Missed due times"),
        choices=MISSED_LABELS,
        help_text=gettext_lazy("Those that passed while no worker ran."),
    )
    payload = forms.CharField(
        label=gettext_lazy("Payload"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"class": "vLargeTextField", "rows": 8, "spellcheck": "false"}),
        help_text=gettext_lazy("JSON; empty: {}."),
    )
    key = forms.CharField(
        label=gettext_lazy("Key"),
        max_length=MAX_KEY_LENGTH,
        required=False,
        strip=False,
        widget=forms.TextInput(attrs=_WIDE),
        help_text=gettext_lazy("While a message with it is live, a due time enqueues nothing, so runs don't overlap."),
    )
    seen = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = Schedule
        fields: ClassVar[Any] = ("name", "queue", "cron", "timezone", "missed", "key")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plan: Plan | None = None
        self._keeps = False
        if self.instance._state.adding:
            self.initial.setdefault("timezone", settings.TIME_ZONE)
            return
        self.initial["seen"] = self.instance.revision
        self.initial["payload"], hidden = payload_text(self.instance, sees=self.sees_payload)
        self._keeps = bool(hidden)
        if hidden:
            self.fields["payload"].help_text = f"{hidden} {_('Leave it empty to keep it as it is.')}"

    def clean_name(self) -> str:
        """Refuse a name that no schedule can have, or that one has."""
        name = _checked(lambda: check_queue(self.cleaned_data["name"]))
        if (
            name in conf.get("SCHEDULES")
            or name in declared_plans()
            or Schedule.objects.using(self.using).filter(pk=name).exists()
        ):
            raise forms.ValidationError(_("There is a schedule %(name)r already.") % {"name": name})
        return name

    def clean_queue(self) -> str:
        """Refuse a name that no queue can have."""
        return _checked(lambda: check_queue(self.cleaned_data["queue"]))

    def clean_timezone(self) -> str:
        """Refuse a zone that there isn't."""
        return _checked(lambda: cron.zone(self.cleaned_data["timezone"].strip() or settings.TIME_ZONE))

    def clean_cron(self) -> str:
        """Refuse what is no expression, or is never due."""
        return _checked(lambda: cron.read(self.cleaned_data["cron"], "UTC").expression)

    def clean_key(self) -> str | None:
        """Refuse what no message can have as its key."""
        return _checked(lambda: check_key(self.cleaned_data["key"])) if self.cleaned_data["key"] else None

    def clean_payload(self) -> Json:
        """Return the payload, decoded."""
        text = self.cleaned_data["payload"]
        try:
            if not text.strip():
                return self.instance.payload if self._keeps else {}
            return decode_json(text)
        except UndecodableMessage as error:
            raise forms.ValidationError(_("This is not JSON: %(error)s") % {"error": error}) from error

    def clean(self) -> dict[str, Any]:
        """Check the whole, and that nobody has changed it in the meantime."""
        answers: dict[str, Any] = super().clean() or self.cleaned_data
        if "queue" in answers and not answers.get("create") and (why := why_unknown(answers["queue"], self.using)):
            self.add_error("queue", why)
        if not self.instance._state.adding and answers.get("seen") != self.instance.revision:
            self.add_error(None, _("It has changed in the meantime: open this page again."))
        if self.errors:
            return answers
        options = {name: answers[name] for name in conf.PER_SCHEDULE}
        try:
            self.plan = declarations.read(answers.get("name", self.instance.name), options)
        except InvalidSchedule as error:
            self.add_error("payload", str(error))
        return answers


def payload_text(schedule: Schedule, *, sees: bool) -> tuple[str, str]:
    """Return the payload as text, and why it isn't shown; one of them is ''."""
    if not sees:
        return "", _("Not shown: that needs the permission for payloads.")
    content = content_of(schedule)
    if content.hidden:
        return "", content.hidden
    if content.payload_broken:
        return schedule.body or "", ""
    if is_redacting() and content.payload != schedule.payload:
        return "", _("Not shown: parts of it are redacted.")
    return json.dumps(content.payload, ensure_ascii=False, indent=2), ""


def _checked(check: Callable[[], Checked]) -> Checked:
    try:
        return check()
    except DBQueueError as error:
        raise forms.ValidationError(str(error)) from error
