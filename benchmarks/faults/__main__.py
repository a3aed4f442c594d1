"""python -m benchmarks.faults [...]: what `bin/bench --faults` calls."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks import command
from benchmarks.faults.board import page
from benchmarks.faults.contestants import CONTESTANTS, Contestant
from benchmarks.faults.run import AGAIN, FAULTS, Run
from benchmarks.queue import servers
from benchmarks.queue.peers.databases import own_place
from benchmarks.queue.peers.environments import environment_of, pinned
from benchmarks.queue.peers.roster import PEERS, Profile
from benchmarks.queue.processes import ChildFailed
from benchmarks.queue.sessions import connect, execute
from tests.servers.private import ServerError

_DATABASE: Final = "postgres"
"""The only one that all contestants run on."""
_EVENTS: Final = [*FAULTS, AGAIN]
_OWN: Final = ("dbqueue", "dbqueue_plain")


def main() -> int:
    command.unwind_when_stopped()
    options = _parser().parse_args()
    commands, missing = _commands([each for each in CONTESTANTS if each.adapter in options.only])
    with servers.database(_DATABASE, tmpfs=True) as server:
        about = _about(options, server, commands)
        with ThreadPoolExecutor(options.jobs) as pool:
            runs = {
                (name, fault): pool.submit(_run, server, name, line, fault, options)
                for name, line in commands.items()
                for fault in options.faults
            }
            found = {which: run.result() for which, run in runs.items()}
    scores: dict[str, dict[str, Any]] = {}
    for (name, fault), score in found.items():
        scores.setdefault(name, {})[fault] = score
    document = {"about": about, "scores": scores, "missing": missing}
    if options.json:
        options.json.write_text(json.dumps(document, indent=1))
    text = page(about, scores, missing)
    if options.page:
        options.page.write_text(text)
    print(text)
    failed = [which for which, score in found.items() if "error" in score]
    return 1 if failed or _lost_by_us(scores) else 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="bin/bench --faults", allow_abbrev=False)
    names = [each.adapter for each in CONTESTANTS]
    made.add_argument("--only", type=command.names(names), default=names, metavar="QUEUE[,QUEUE]")
    made.add_argument("--faults", type=command.names(_EVENTS), default=_EVENTS, metavar="FAULT[,FAULT]")
    made.add_argument("--seconds", type=command.positive, default=15, help="how long each fault comes; default 15")
    made.add_argument("--jobs", type=command.positive, default=2, help="runs at once; default 2")
    made.add_argument("--seed", type=command.positive, help="repeats whom the faults hit")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every score to this file")
    made.add_argument("--page", type=Path, metavar="FILE", help="write the page for the docs to this file")
    return made


def _commands(chosen: list[Contestant]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """How each is started; and why others can't be."""
    commands: dict[str, tuple[str, ...]] = {}
    missing: dict[str, str] = {}
    for each in chosen:
        if each.adapter in _OWN:
            commands[each.adapter] = (sys.executable, "-m", "benchmarks.queue.peers.child", each.adapter)
            continue
        try:
            commands[each.adapter] = environment_of(each.adapter, PEERS[each.adapter].python).command
        except ServerError as error:
            missing[each.adapter] = str(error).splitlines()[0]
            command.announce(f"{each.adapter}: {error}")
    return commands, missing


def _run(server: str, name: str, line: tuple[str, ...], fault: str, options: argparse.Namespace) -> dict[str, Any]:
    profile = PEERS.get(name, Profile(drain=0))
    with (
        tempfile.TemporaryDirectory(prefix="dbqueue-faults-") as home,
        own_place(profile, f"{name}_{fault}", server, Path(home)) as place,
        Run(line, os.environ, place, Path(home), options.seed) as run,
    ):
        try:
            score = {"seconds": run.run_again()} if fault == AGAIN else asdict(run.run(fault, float(options.seconds)))
        except (ChildFailed, AssertionError) as error:
            command.announce(f"{name}, {fault}: {error}")
            return {"error": str(error).splitlines()[0]}
    command.announce(f"{name}, {fault}: {score}")
    return score


def _about(options: argparse.Namespace, server: str, commands: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    options.seed = options.seed or random.randrange(1, 1_000_000)
    with closing(connect(server)) as session:
        [(found,)] = execute(session, "SHOW server_version")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "server": f"PostgreSQL {found.split()[0]}",
        "pythons": {name: _python(line[0]) for name, line in commands.items()},
        "cores": os.cpu_count(),
        "seed": options.seed,
        "seconds": options.seconds,
        "versions": {each.adapter: _version(each) for each in CONTESTANTS},
    }


def _python(interpreter: str) -> str:
    done = subprocess.run([interpreter, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def _version(each: Contestant) -> str:
    """Of ourselves, or as pinned."""
    return version("django-dbqueue") if each.adapter in _OWN else pinned(each.adapter)


def _lost_by_us(scores: dict[str, dict[str, Any]]) -> bool:
    """Whether this queue broke what it promises: then the run has failed."""
    wrong = {"dbqueue": ("lost", "doubled", "hung", "failed"), "dbqueue_plain": ("lost", "hung", "failed")}
    return any(
        score.get(count)
        for name, counts in wrong.items()
        for score in scores.get(name, {}).values()
        for count in counts
    )


if __name__ == "__main__":
    sys.exit(main())
