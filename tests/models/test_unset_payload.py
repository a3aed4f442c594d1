"""Whoever makes a row of a message by Django's own means learns how one is sent."""

from __future__ import annotations

import pytest

from django_dbqueue.models import Message


def test_a_payload_given_to_the_model_leads_to_enqueue() -> None:
    for make in (Message, Message.objects.create):
        with pytest.raises(AttributeError, match=r"send a message with Message\.objects\.enqueue\(payload, queue"):
            make(queue="emails", payload={"to": "ann"})
