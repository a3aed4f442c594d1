"""The reason that an operator gives."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _


class ReasonForm(forms.Form):
    """Why messages are removed from their queue, or a queue is paused."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=500,
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
    )
