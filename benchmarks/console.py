"""How long each page of the console takes, and what its statements examine: ``bin/bench --console``.

The tables are built by SQL in a database of its own: ten million messages, or, with --quick, those of the tests. Each
page is asked for once to warm up, and then some rounds; what counts is the median.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

WANTED_MS: Final = 200
"""Within which every page is to answer."""
WANTED_ROWS: Final = 20_000
"""What a statement may examine."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench --console", allow_abbrev=False)
    parser.add_argument("--database", default="mariadb", choices=("mariadb", "mysql", "postgres", "sqlite"))
    parser.add_argument("--rounds", type=int, default=5, help="how often each page is timed; default 5")
    parser.add_argument("--quick", action="store_true", help="use the small tables of the tests")
    options = parser.parse_args()
    from tests.servers.suite import server_url

    with server_url(options.database) as url:
        os.environ |= {"DBQUEUE_TEST_DATABASE": options.database, "DBQUEUE_TEST_URL": url}
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
        with _tables(quick=options.quick):
            return _measure(options.rounds)


@contextmanager
def _tables(*, quick: bool) -> Iterator[None]:
    import django

    django.setup()
    from django.db import connection

    from tests.plans import crowd
    from tests.scale import rows
    from tests.scale.size import SMALL, TEN_MILLION

    size = SMALL if quick else TEN_MILLION
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        began = time.monotonic()
        rows.fill(size)
        crowd.gather_statistics(*rows.TABLES)
        print(f"{size.messages:,} messages in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        yield
    finally:
        connection.creation.destroy_test_db("", verbosity=0)


def _measure(rounds: int) -> int:
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import setup_test_environment

    from tests.scale.counters import examined
    from tests.scale.pages import paths

    setup_test_environment()
    client = Client()
    client.force_login(User.objects.create_superuser("bench"))
    slow = 0
    print(f"{'median ms':>10}{'slowest':>10}{'statements':>12}{'rows at most':>14}  page")
    for name, path in paths().items():
        with examined(connection) as found:
            status = client.get(path).status_code
        if status not in {200, 302}:
            continue  # it wants a POST, or nobody may see it
        times = []
        for _round in range(rounds):
            began = time.monotonic()
            client.get(path)
            times.append((time.monotonic() - began) * 1000)
        median, most = statistics.median(times), max((each.rows for each in found), default=0)
        slow += median > WANTED_MS or most > WANTED_ROWS
        mark = "  <- too much" if median > WANTED_MS or most > WANTED_ROWS else ""
        print(f"{median:>10.0f}{max(times):>10.0f}{len(found):>12}{most:>14,}  {name}{mark}", flush=True)
    print(f"{slow} pages are over {WANTED_MS} ms, or over {WANTED_ROWS:,} rows in a statement")
    return 0


if __name__ == "__main__":
    sys.exit(main())
