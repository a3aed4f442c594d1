"""An import that is killed at a statement: ``python -m tests.importers.killed_importer SOURCE``.

For each number on standard input it forks a child that imports in steps of three rows, and gets SIGKILL at the boundary
of that number (tests.systems.killed_archiver).
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import django

from tests.systems.killed_archiver import Boundaries

STEP = 3


def take_over(source: str, boundary: int, pipe: int) -> None:
    from django.db import connection

    from django_dbqueue.importers import source_named
    from django_dbqueue.importers import take_over as module
    from django_dbqueue.sessions.django_session import session_of

    module.STEP = STEP
    Boundaries(boundary, pipe).watch(connection)
    for _step in module.take_over(session_of("default"), source_named(source)):
        pass


def run_child(source: str, boundary: int) -> dict[str, Any]:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            take_over(source, boundary, writer)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        points = lines.read().splitlines()
    status = os.waitpid(pid, 0)[1]
    return {"killed": os.WIFSIGNALED(status), "failed": bool(os.WEXITSTATUS(status)), "points": points}


def main(source: str) -> None:
    django.setup()
    for line in sys.stdin:
        print(json.dumps(run_child(source, int(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
