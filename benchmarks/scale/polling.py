"""A check that is repeated in a thread while something else runs."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def polling(check: Callable[[], None], every: float) -> Iterator[None]:
    """Call ``check`` until the block ends. ``every``: seconds from one call to the next."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(every):
            check()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
