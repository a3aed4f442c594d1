"""The limit that an operator sets."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from django_dbqueue.lanes.tickets import WIDEST


class LimitForm(forms.Form):
    """How many messages of a group may run at once; nothing: as many as for its queue."""

    limit = forms.IntegerField(
        label=_("Limit"),
        help_text=_("How many of its messages may run at once. Empty: as many as for its queue."),
        min_value=1,
        max_value=WIDEST,
        required=False,
        widget=forms.NumberInput(attrs={"class": "vIntegerField", "autofocus": True}),
    )
