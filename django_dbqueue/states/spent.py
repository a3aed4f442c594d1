"""Whether a message's reads are used up: the next delivery would be one too many. No limit is 0, or NULL."""

from __future__ import annotations

from typing import Final


def is_spent(read_count: int, max_reads: int | None) -> bool:
    """Return whether this many deliveries are all that a message may have."""
    return max_reads is not None and 0 < max_reads <= read_count


def spent(read_count: str, max_reads: str) -> str:
    """Return the same as a condition in SQL, NULL where ``max_reads`` is."""
    return f"({max_reads} > 0 AND {read_count} >= {max_reads})"


SPENT: Final = spent("read_count", "max_reads")
