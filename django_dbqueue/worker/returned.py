"""What a consumer returns: of a message of a flow it is kept, for those that wait for it."""

from __future__ import annotations

from typing import Final

from django_dbqueue import codecs, conf
from django_dbqueue.databases.statement import Kept
from django_dbqueue.exceptions import InvalidFlow, InvalidMessage
from django_dbqueue.worker.delivery import Delivery

KEEP_RESULTS: Final = 14 * 86_400.0
"""Seconds."""


def kept_of(delivery: Delivery, value: object) -> Kept | None:
    """Return what is kept of a handler's return value with its ack; InvalidFlow if it can't be kept."""
    if delivery.flow is None or value is None:
        return None
    try:
        body, content_type, types = codecs.encode(value, max_bytes=conf.get("MAX_PAYLOAD_BYTES"))
    except InvalidMessage as error:
        raise InvalidFlow(
            f"what {delivery.consumer.name} returned for message {delivery.claim.id} can't be handed on in its flow: "
            f"{error} Return what later messages need of it, such as an id, or None."
        ) from error
    return Kept(body, content_type, KEEP_RESULTS, delivery.flow, types)
