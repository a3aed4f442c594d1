"""The fields that a verb's confirmation page asks for."""

from __future__ import annotations

from typing import Any

from django.forms import Form

from django_dbqueue.admin.reason import ReasonForm
from django_dbqueue.admin.target_form import TargetForm
from django_dbqueue.operations.verbs import Verb


def form_of(verb: Verb, using: str, *data: Any) -> Form | None:
    """Return the form of a verb, with what was sent if it was; None if it asks nothing."""
    if verb.asks_queue:
        return TargetForm(*data, using=using)
    return ReasonForm(*data) if verb.asks_reason else None
