"""python -m tests.servers serve mariadb      a private server until Ctrl-C; prints its URL
python -m tests.servers suite [...]         the suite on every database (what `bin/test` calls)
"""

from __future__ import annotations

import argparse
import signal
import sys
from typing import TYPE_CHECKING

from tests import gate
from tests.servers import gate_runs
from tests.servers.command_line import databases, leave
from tests.servers.private import ServerError
from tests.servers.suite import DATABASES, Selection, run_suite, server_url

if TYPE_CHECKING:
    pass


def main() -> int:
    # A stop signal unwinds the stack, and every server with it. A shell that starts this in the background has SIGINT
    # ignored, which all that this starts would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
    options, rest = _parser().parse_known_args()
    try:
        return options.run(options, rest)
    except KeyboardInterrupt:
        print("\nInterrupted; the servers of this run are stopped.", file=sys.stderr)
        return 130
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.servers", allow_abbrev=False)
    commands = parser.add_subparsers(required=True)

    serve = commands.add_parser("serve", help="start a private server and print its URL")
    serve.add_argument("database", choices=[name for name in DATABASES if name != "sqlite"])
    serve.set_defaults(run=_serve)

    suite = commands.add_parser("suite", allow_abbrev=False, help="run the tests; other arguments go to pytest")
    suite.add_argument("--only", type=databases, default=list(DATABASES), metavar="DB[,DB]")
    suite.add_argument("--require-mysql", action="store_true")
    suite.add_argument("--slow", action=argparse.BooleanOptionalAction, default=True)
    suite.add_argument("--spark", action=argparse.BooleanOptionalAction, default=True)
    suite.add_argument("--browser", action=argparse.BooleanOptionalAction, default=True)
    suite.add_argument("--quick", action="store_true")
    suite.add_argument("--nightly", action="store_true")
    suite.add_argument("--gate", choices=[*gate.PARTS, "changed"], help="a part of what runs before each change lands")
    suite.add_argument("-m", dest="marks", default="", metavar="MARKS")
    suite.set_defaults(run=_suite)
    return parser


def _serve(options: argparse.Namespace, rest: list[str]) -> int:
    if rest:
        raise ServerError(f"unknown arguments: {' '.join(rest)}")
    with server_url(options.database) as url:
        print(url, flush=True)
        signal.pause()
    return 0


def _suite(options: argparse.Namespace, rest: list[str]) -> int:
    if options.gate:
        return gate_runs.run(options.gate, options.only, rest)
    if options.quick and not rest and not options.marks:
        return gate_runs.run_quick()
    selection = Selection(
        options.marks,
        slow=options.slow and not options.quick,
        spark=options.spark and not options.quick,
        browser=options.browser and not options.quick,
        kills=not options.quick,
        nightly=options.nightly,
    )
    return run_suite(options.only, selection, rest, require_mysql=options.require_mysql)


if __name__ == "__main__":
    sys.exit(main())
