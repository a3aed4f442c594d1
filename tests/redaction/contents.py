"""Contents to be redacted, and errors that quote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django_dbqueue.codecs import encode
from django_dbqueue.envelope import check_headers
from django_dbqueue.failures.error_texts import error_text as as_stored
from django_dbqueue.redaction.policy import error_text


@dataclass
class Row:
    body: str
    content_type: str = "json"
    headers_text: str | None = None
    queue: str = "q"


def row(payload: Any, headers: dict[str, Any] | None = None) -> Row:
    body, content_type, types = encode(payload, max_bytes=10_000_000)
    return Row(body, content_type, check_headers(headers, types=types))


def raised(error: BaseException) -> str:
    """What the column keeps of an error that was raised here."""
    try:
        raise error
    except BaseException as caught:
        return as_stored(caught) or ""


def shown(text: str, message: Row) -> str:
    return error_text(text, of=message, sees_payload=True)
