"""This queue with a consumer that is not transactional: its row is committed before the ack, as with the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.faults.handler import handle
from benchmarks.queue.peers.adapters.dbqueue import Adapter as Transactional

if TYPE_CHECKING:
    from django_dbqueue.models import Message


def plain(message: Message) -> None:
    handle(message.payload["n"])


class Adapter(Transactional):
    consume = staticmethod(plain)
    is_transactional = False
