"""Running tasks as a worker would, whatever their errors."""

from __future__ import annotations

from typing import Any

from django_dbqueue.testing import run_consumers


def run(queue: str = "default", **how: Any) -> Any:
    return run_consumers(queue, on_error="collect", **how)
