from __future__ import annotations

from tests.process.conftest import start_guardian, start_worker

__all__ = ["start_guardian", "start_worker"]
