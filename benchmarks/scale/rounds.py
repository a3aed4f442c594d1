"""All jobs beside all histories, by turns: round by round, job by job, each beginning with another history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.scale.account import Account, account

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.scale.counters import Counters
    from benchmarks.scale.jobs import Job, Site
    from benchmarks.scale.memory import Memory

Place = tuple["Site", "Counters"]


def run(
    jobs: Sequence[Job], places: Sequence[Place], memory: Memory, rounds: int, announce: Callable[[str], None]
) -> list[Account]:
    """Return the accounts of all rounds but one before them, beside the smallest history alone, which warms up.

    Beside the smallest history a job works on twice as many new rows as well, which tells what one of them costs.
    """
    found: list[Account] = []
    for number in range(rounds + 1):
        for job in jobs:
            if job.once and number != rounds:
                continue
            turn = number % len(places)
            for site, counters in (*places[turn:], *places[:turn]) if number else places[:1]:
                sizes = [job.new] if "new" not in job.terms or site is not places[0][0] else [job.new, 2 * job.new]
                for new in sizes:
                    one = account(job, site, new, counters, memory)
                    announce(f"round {number}: {job.name} of {new:,} beside {site.rows:,}: {one.seconds:.1f} s")
                    found += [one] if number else []
    return found
