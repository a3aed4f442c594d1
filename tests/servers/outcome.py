"""What came of a pass of pytest, and its rest where it came to no end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.servers.recorder import Record
from tests.servers.second_chance import Flaky
from tests.servers.times import dearest_folders

TESTS_FAILED = 1
_NO_TEST_RAN = 5
NO_TEST = "no test ran"
_ENDS = {0, TESTS_FAILED, 2, 4, _NO_TEST_RAN}
"""Pytest's exit codes when it knew what it did. All else is a crash of it, or of its machine."""
_MOST = 6
"""How many sessions a pass may take: what has ended six would end a seventh."""


@dataclass(frozen=True, slots=True)
class Result:
    """``failed`` counts what came to no result, too; ``problem`` says how many those are."""

    database: str
    version: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0
    problem: str = ""
    tested: bool = True
    flaky: tuple[Flaky, ...] = ()

    @property
    def bad(self) -> bool:
        return bool(self.failed or self.problem)


@dataclass(frozen=True, slots=True)
class Session:
    """One run of pytest, which wrote into this directory, and its exit code; -1 where it was stopped."""

    directory: Path
    code: int

    @property
    def report(self) -> Path:
        return self.directory / "report.xml"

    @property
    def record(self) -> Record:
        """Of what pytest has reported: where it could not write a report, none of it counts."""
        record = Record.read(self.directory / "record")
        return record if self.report.exists() else Record(record.collected, record.begun, frozenset())


def written_to(directory: Path) -> list[str]:
    """Pytest's arguments for a session that writes into this directory."""
    return [f"--junitxml={directory}/report.xml", f"--record={directory}/record"]


def to_the_end(directory: Path, start: Callable[[list[str]], int]) -> Iterator[Session]:
    """A session of pytest, and where it comes to no end, more of them until every test has run.

    What ran when one ended comes last, one by one: something among it has ended that one, and would end the next. What
    then ends one is guilty, and begins no other. ``start`` runs pytest with these arguments more, and returns its exit
    code.
    """
    session = Session(directory, start(written_to(directory)))
    yield session
    if session.code in _ENDS:
        return
    collected, ended, alone = session.record.collected, session.record.ended, False
    suspects, guilty = frozenset[str](), frozenset[str]()
    for number in range(1, _MOST):
        running = session.record.begun - session.record.ended
        suspects, guilty = suspects | running, guilty | (running if alone else frozenset())
        alone = not (others := collected - ended - suspects)
        if not (wanted := suspects - ended - guilty if alone else others):
            return
        print(
            f"=== {len(collected - ended):,} of {len(collected):,} tests have not run; now {len(wanted):,}", flush=True
        )
        session = _rest(directory / f"rest-{number}", start, collected - wanted, ["-n", "0"] if alone else [])
        yield session
        ended |= session.record.ended


def _rest(directory: Path, start: Callable[[list[str]], int], without: frozenset[str], more: list[str]) -> Session:
    directory.mkdir()
    (directory / "without").write_text("".join(f"{test}\n" for test in sorted(without)))
    return Session(directory, start([*more, f"--without={directory}/without", *written_to(directory)]))


def counted(sessions: Sequence[Session], database: str, version: str, seconds: float) -> Result:
    """What they come to together."""
    passed, failed, skipped = map(sum, zip(*(_counted(each, database) for each in sessions), strict=True))
    records = [each.record for each in sessions]
    total = len(records[0].collected)
    lost = total - len(frozenset[str]().union(*(each.ended for each in records)))
    code = sessions[0].code
    problem = ""
    if code == _NO_TEST_RAN:
        problem = NO_TEST
    elif code not in _ENDS or (code and not failed) or (lost and code != TESTS_FAILED):
        problem = f"pytest ended with exit code {code}"
        problem += f"; its rest ran in {len(sessions) - 1} more" if len(sessions) > 1 else ""
        problem += f"; {lost:,} of {total:,} tests came to no result" if lost else ""
    failed += lost if code not in _ENDS else 0
    return Result(database, version, passed, failed, skipped, seconds, problem)


def _counted(session: Session, database: str) -> tuple[int, int, int]:
    """Those that passed, failed and were skipped."""
    try:
        suite = ElementTree.parse(session.report).getroot().find("testsuite")
        assert suite is not None
    except (OSError, ElementTree.ParseError):
        return 0, 0, 0
    total, failures, errors, skipped = (int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped"))
    if spent := dearest_folders(suite):
        print(f"=== {database}: {spent}", flush=True)
    return total - failures - errors - skipped, failures + errors, skipped
