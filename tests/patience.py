"""How long tests wait for what should have come."""

from __future__ import annotations

import os


def patience(seconds: float) -> float:
    """Multiply a deadline by DBQUEUE_TEST_PATIENCE: the one factor for the deadlines in tests.

    A busy machine raises it. Waiting longer costs nothing where a test is green.
    """
    return seconds * float(os.environ.get("DBQUEUE_TEST_PATIENCE", "1"))
