"""How far a step in progress has come, as people may see it."""

from __future__ import annotations

import json
from typing import Final

from django_dbqueue.models.step import Step
from django_dbqueue.redaction.policy import Excerpt, content_of

SHOWN: Final = 200
"""Characters of a cursor that are shown."""


def cursor_text(queue: str, step: Step) -> str:
    """Return the cursor of a step in progress in one line, redacted as payloads are: only who sees these may see it."""
    content = content_of(Excerpt(queue, step.body or "", step.content_type or ""))
    if content.hidden:
        return content.hidden
    value = content.payload
    text = repr(value) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"
