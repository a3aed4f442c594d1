"""An import in steps of three rows, that is killed: ``python -m tests.importers.killed_importer SOURCE``."""

from __future__ import annotations

import sys
from functools import partial

from tests.systems.kills import Boundaries, serve

STEP = 3


def take_over(source: str, boundaries: Boundaries) -> None:
    from django.db import connection

    from django_dbqueue.importers import source_named
    from django_dbqueue.importers import take_over as module
    from django_dbqueue.sessions.django_session import session_of

    module.STEP = STEP
    boundaries.watch(connection)
    for _step in module.take_over(session_of("default"), source_named(source)):
        pass


if __name__ == "__main__":
    serve(partial(take_over, sys.argv[1]))
