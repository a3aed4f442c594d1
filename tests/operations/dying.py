"""Takes the steps of operations as a worker does, and kills its process at the statement whose number it is given.

``python -m tests.operations.dying 7``: nothing is left behind but what was committed before the seventh statement.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import django
from django.db import connection


def main(last: int) -> None:
    from django_dbqueue.operations import bulk
    from tests.operations.orders import next_step

    bulk.STEP = 3  # type: ignore[misc]
    sent = 0

    def count(execute: Callable[..., Any], *statement: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(*statement)

    with connection.execute_wrapper(count):
        while next_step():
            pass


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]))
