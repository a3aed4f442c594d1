"""The states of the claims of consuming streams."""

from __future__ import annotations

from typing import Final

OPEN: Final = "open"
"""A claim whose batch is not yet known to be committed."""
ACKED: Final = "acked"
FREEING: Final = "freeing"
"""A claim whose messages are being released, a part at a time."""
FREED: Final = "freed"
