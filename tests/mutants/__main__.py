"""python -m tests.mutants: what `bin/mutants` calls."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.planted import NotPlanted, read_all
from tests.mutants.trying import Trial
from tests.servers.command_line import databases, leave
from tests.servers.directory import own_directory
from tests.servers.private import ServerError
from tests.servers.suite import DATABASES, server_url

if TYPE_CHECKING:
    pass

_HERE = Path(__file__).resolve().parent


def main() -> int:
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
    options = _options()
    try:
        mutants = [mutant for mutant in read_all(_HERE) if options.k in mutant.name]
        if options.list:
            for mutant in mutants:
                print(f"{mutant.promise:<5}{mutant.name:<45}{','.join(mutant.on):<18}{' '.join(mutant.tests)}")
            return 0
        with own_directory("mutants") as directory:
            results = Trial(_HERE.parents[1], directory, server_url).run(mutants, options.only)
    except (NotPlanted, ServerError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    caught = sum(result.is_caught for result in results)
    for result in results:
        if not result.is_caught:
            print(f"{result.verdict}: {result.mutant.name} {result.database}")
    print(f"{caught} passed, {len(results) - caught} failed", flush=True)
    return int(caught < len(results) or not results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/mutants", allow_abbrev=False)
    parser.add_argument("-k", default="", metavar="NAME", help="only those whose name contains this")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--only", type=databases, default=list(DATABASES), metavar="DB[,DB]")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
