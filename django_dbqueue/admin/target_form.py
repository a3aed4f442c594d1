"""The queue into which an operator moves messages."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_dbqueue import conf
from django_dbqueue.consumers.registry import has_consumer
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.insight.overview import known_queues
from django_dbqueue.operations.verbs import check_target


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
        said = self.cleaned_data
        if "queue" not in said:
            return said
        try:
            name = check_target(said["queue"])
        except InvalidMessage as error:
            self.add_error("queue", str(error))
            return said
        if not said["create"] and (why := why_unknown(name, self._using)):
            self.add_error("queue", why)
        return said


def why_unknown(name: str, using: str) -> str:
    """Say that there is no such queue, and which may be meant; '' if it is known."""
    known = {*conf.get("QUEUES"), *known_queues(using)}
    if name in known or has_consumer(name):
        return ""
    text = _("There is no queue %(queue)r: it has no messages, no worker and no queue row.") % {"queue": name}
    close = get_close_matches(name, sorted(known), n=1)
    return text + (" " + _("Did you mean %(queue)r?") % {"queue": close[0]} if close else "")
