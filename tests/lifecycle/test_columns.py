"""Each list of columns that is written out is the model's."""

from __future__ import annotations

import pytest
from django.db.models import Model

from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.models.staged import StagedMessage
from django_dbqueue.statements.message_columns import (
    ARCHIVED_COLUMNS,
    CLAIMED_COLUMNS,
    CONTENT_COLUMNS,
    MESSAGE_COLUMNS,
    SENT_COLUMNS,
    UNARCHIVED_COLUMNS,
)

STAGED = ("job", "run", "attempt", "place", *SENT_COLUMNS, "delay_seconds", "due_at", "staged_at")


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (Message, MESSAGE_COLUMNS),
        (ArchivedMessage, ("id", "message_id", "outcome", *ARCHIVED_COLUMNS, "archived_at")),
        (StagedMessage, tuple(name for name in STAGED if name != "live")),
    ],
    ids=["messages", "history", "staged"],
)
def test_a_table_has_these_columns(model: type[Model], columns: tuple[str, ...]) -> None:
    assert tuple(field.column for field in model._meta.concrete_fields) == columns


def test_what_is_sent_claimed_and_archived_are_columns_of_a_message() -> None:
    assert {*SENT_COLUMNS, *CLAIMED_COLUMNS, *UNARCHIVED_COLUMNS} < {*MESSAGE_COLUMNS}
    assert ("queue", "key", "key_hash", "live", *CONTENT_COLUMNS) == SENT_COLUMNS
