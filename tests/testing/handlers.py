"""Consumers for the tests of run_consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_dbqueue.models import Message


class Trouble(Exception):
    """What a consumer raises."""


def succeed(_message: Message) -> None:
    pass


def fail(_message: Message) -> None:
    raise Trouble("as told")
