"""An update by key of a message of a flow: new content, and the results of the same ones before it (P22)."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue import Envelope, flow
from django_dbqueue.models import Message, Result
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE, claim_one

pytestmark = pytest.mark.django_db(transaction=True)


def update(payload: Any, by: str, **options: Any) -> bool:
    """Whether there was something to update."""
    if by == "enqueue_many":
        new = Envelope(payload, key="k", **options)
        return Message.objects.enqueue_many([new], queue=QUEUE, on_conflict="update").updated == 1
    sent = Message.objects.enqueue(payload, queue=QUEUE, key="k", on_conflict="update", **options)
    return sent.outcome == "updated"


def send() -> None:
    with flow("keyed") as f:
        f.enqueue(Envelope("last", key="k"), queue=QUEUE, after=f.enqueue("first", queue=QUEUE))


@pytest.mark.parametrize("by", ["enqueue", "enqueue_many"])
@pytest.mark.parametrize("headers", [None, {"of": "the sender"}])
def test_it_gets_the_results_of_those_before_it(by: str, headers: dict[str, str] | None) -> None:
    send()
    assert update("new", by, headers=headers)
    first = claim_one()
    first.ack()
    Result.objects.create(pk=first.pk, flow=first.flow, body="17", content_type="json", expires_at=DbNow())
    last = claim_one()
    assert (last.payload, last.results()) == ("new", [17])
    assert last.headers.get("of") == (headers or {}).get("of")


@pytest.mark.parametrize("by", ["enqueue", "enqueue_many"])
def test_the_same_content_once_more_ends_no_claim(by: str) -> None:
    send()
    claim_one().ack()
    last = claim_one()
    assert not update("last", by)
    last.ack()
