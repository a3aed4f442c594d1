"""Flows from async code: sent by one function, in a thread and in one transaction; looked at and cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection

from django_dbqueue import InvalidFlow, aflow, progress_url
from django_dbqueue.models import Flow, Message
from django_dbqueue.models.flow_builder import FlowBuilder
from tests.factories import QUEUE, claim_one

pytestmark = pytest.mark.django_db(transaction=True)


def build(f: FlowBuilder) -> None:
    assert connection.in_atomic_block
    pages = f.enqueue_many(range(2), queue=QUEUE)
    f.enqueue("report", queue=QUEUE, after=pages)


def test_a_flow_is_sent_from_async_code() -> None:
    number = async_to_sync(aflow)("import 17", build)
    claim_one().ack()
    claim_one().ack()
    assert claim_one().payload == "report"
    assert Flow.objects.get(pk=number).name == "import 17"


def test_a_function_that_fails_sends_nothing() -> None:
    def fail(f: FlowBuilder) -> None:
        build(f)
        raise KeyError("page")

    with pytest.raises(KeyError, match="page"):
        async_to_sync(aflow)("f", fail)
    assert (Flow.objects.count(), Message.objects.count()) == (0, 0)


async def later(f: FlowBuilder) -> None:
    f.enqueue(1, queue=QUEUE)


def in_parts(f: FlowBuilder) -> Iterator[None]:
    f.enqueue(1, queue=QUEUE)
    yield


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (later, "not with async def"),
        (in_parts, "a generator that nobody ran"),
        (lambda f: zip(in_parts(f)), "a zip that nobody ran"),
    ],
)
def test_a_function_that_ends_later_is_refused_and_sends_nothing(function: Any, error: str) -> None:
    with pytest.raises(InvalidFlow, match=error):
        async_to_sync(aflow)("f", function)
    assert (Flow.objects.count(), Message.objects.count()) == (0, 0)


def test_flows_that_are_sent_alongside_each_other_do_not_mix() -> None:
    async def send(name: str) -> int:
        def build(f: FlowBuilder) -> None:
            f.enqueue_many([name] * 3, queue=QUEUE)
            if name == "lost":
                raise KeyError(name)

        return await aflow(name, build)

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*map(send, ("a", "lost", "b")), return_exceptions=True)

    first, lost, second = async_to_sync(all_of_them)()
    assert isinstance(lost, KeyError)
    sent = Message.objects.order_by("pk").values_list("flow", "body")
    assert sorted(sent) == sorted([(first, "a")] * 3 + [(second, "b")] * 3)


def test_progress_and_cancel_have_async_twins() -> None:
    async def send_and_cancel() -> tuple[Any, int, str]:
        flow = await Flow.objects.aget(pk=await aflow("f", build))
        seen = await flow.aprogress()
        url = await sync_to_async(progress_url)(flow)
        return seen[:4], await Flow.objects.acancel(flow.pk, reason="no", by="ann"), url

    seen, dropped, url = async_to_sync(send_and_cancel)()
    assert (seen, dropped) == ((3, 0, 0, 3), 3)
    assert url.startswith("/progress/")
    assert not Message.objects.exclude(error__endswith="by ann: no").exists()
