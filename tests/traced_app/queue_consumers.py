from __future__ import annotations

import logging

from opentelemetry import baggage

from django_dbqueue import consumer
from django_dbqueue.models import Message
from tests.consumers_app.deeds import DEEDS
from tests.consumers_app.noting import note

logger = logging.getLogger("django_dbqueue.traced_app")


@consumer("traced", max_reads=2, backoff=0.05, backoff_max=0.1)
def do_traced(message: Message) -> None:
    note("begin", message, baggage=dict(baggage.get_all()))
    logger.warning("the handler of %s says so", message.pk)
    DEEDS[message.payload["do"]](message, message.payload)


@consumer("traced-async", max_reads=2)
async def do_traced_asynchronously(message: Message) -> None:
    await Message.objects.aenqueue({"do": "ok"}, queue="traced")


@consumer("traced-list", batch=10, batch_wait=0.2)
def do_traced_together(messages: list[Message]) -> None:
    note("together", messages[0], number=len(messages))
