"""Figures of the whole package that may only fall. A change that makes one fall lowers it here."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from tests.house import conditions, layout, once, servers, words
from tests.house.sources import Finding, House, new_and_gone

if TYPE_CHECKING:
    Meter = Callable[[House], Iterable[Finding]]

pytestmark = pytest.mark.once

VENDOR_TESTS = "tests of a vendor outside databases/"
METHODS = "methods of a server that one file alone calls"
CIRCLES = "modules in circles"
BASE_NAMES = "base names that another module has"
CLASS_NAMES = "class names that another class has"
FUNCTIONS = "functions of more than 45 lines"
LOOPS = "claim loops outside claims/claim.py"
BURIALS = "burials outside claims/burial.py"
MOVERS = "changes of an operator's verb outside operations/ways.py"
COLUMNS = "lists of a message's columns outside statements/message_columns.py"
STATES = "conditions of states outside states/ that no reason allows"
SPENT = "conditions of spent reads outside states/"
OLD_WORDS = "old words in identifiers"

FIGURES: Mapping[str, tuple[int, Meter]] = {
    VENDOR_TESTS: (3, servers.vendor_tests),
    "names of vendors outside databases/": (11, servers.vendor_names),
    METHODS: (0, servers.methods_of_one_user),
    CIRCLES: (0, layout.modules_in_circles),
    BASE_NAMES: (0, layout.base_names_twice),
    CLASS_NAMES: (0, layout.class_names_twice),
    "files of more than 300 lines": (0, lambda house: layout.long_files(house.package)),
    FUNCTIONS: (0, lambda house: layout.long_functions(house.package)),
    LOOPS: (0, once.claim_loops),
    BURIALS: (0, once.burials),
    MOVERS: (0, once.movers),
    COLUMNS: (0, once.lists_of_columns),
    STATES: (0, conditions.conditions_of_states),
    SPENT: (0, conditions.conditions_of_spent_reads),
    OLD_WORDS: (0, lambda house: words.old_words(house.package)),
    "files of benchmarks of more than 300 lines": (0, lambda house: layout.long_files(house.benchmarks)),
    "functions of benchmarks of more than 45 lines": (0, lambda house: layout.long_functions(house.benchmarks)),
    "test files of more than 300 lines": (0, lambda house: layout.long_files(house.tests)),
    "functions of tests of more than 45 lines": (0, lambda house: layout.long_functions(house.tests)),
    "old words in identifiers of tests": (0, lambda house: words.old_words(house.tests)),
    "old words in identifiers of benchmarks": (0, lambda house: words.old_words(house.benchmarks)),
}
"""Today's. Wanted are at most 15 tests of a vendor, conditions in their one place, and nothing of all others."""


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """As it is today. The collector would visit a million nodes again and again while they are made, for nothing."""
    gc.disable()
    yield House.today()
    gc.enable()


@pytest.mark.parametrize("name", FIGURES)
def test_there_is_no_more_of_it_and_the_figure_falls_with_it(name: str, house: House) -> None:
    most, meter = FIGURES[name]
    found = list(meter(house))
    if len(found) != most:
        pytest.fail(report(name, found, house.files), pytrace=False)


def report(name: str, found: list[Finding], files: frozenset[str]) -> str:
    """What to do, and what is new or gone since this file was last committed; all there is where nothing tells."""
    most, meter = FIGURES[name]
    advice = f"lower the figure to {len(found)}" if len(found) < most else "it may only fall"
    head = f"{name}: {len(found)}, where tests/test_house.py has {most}: {advice}"
    then = House.when_last_changed("tests/test_house.py")
    if then is None:
        return "\n  ".join((head, *map(str, found)))
    new, gone = new_and_gone(meter(then), found, then.files & files)
    return "\n  ".join((head, *(f"new: {each}" for each in new), *(f"gone: {each}" for each in gone)))


INTERFACE = {
    "databases/server.py": "class Server:\n def plus(self): ...\n def size_of(self): ...\n def _one(self): ...",
    "databases/sessions.py": "class SessionsSQL:\n def me(self): ...",
    "one.py": "server.plus()\nsession.server.size_of\nserver.sessions.me()",
    "two.py": "def work(server):\n server.plus()\n others.size_of()",
}
CIRCLE = {
    "room/one.py": "from django_dbqueue.room.two import Two",
    "room/two.py": "if TYPE_CHECKING:\n from django_dbqueue.room import three",
    "room/three.py": "def work():\n import django_dbqueue.room.one",
    "room/four.py": "from django_dbqueue.room.one import One",
}
AMONG = {"one.py": "class One: ...", "room/one.py": "class One:\n class Meta: ...", "room/two.py": "class Meta: ..."}

A_LOOP = "for priority in self.priorities:\n rows += holder.find(priority, 5, None)"
A_BURIAL = "from django_dbqueue.statements.moves_sql import bury\nmoves_sql.bury(server)\nbury(server)"
A_MOVE = "change = order.verb.change(server, error, by)"
ENVELOPE = {"envelope.py": "class Sealed:\n" + "".join(f" {name}: int\n" for name in (*"abcdef", "delay"))}
SIX = "('a', 'b', 'c', 'd', 'e', 'f')\n{'a': 1, 'b': 2, 'c': 3, 'd': 4, 'e': 5, 'f': 6}\nsql = 'a, b, c, d, e, f'"


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        (VENDOR_TESTS, {"a.py": "connection.vendor == 'mysql'\nisinstance(it, MySQL | None)"}, [1, 2]),
        (VENDOR_TESTS, {"databases/a.py": "vendor == 'mysql'", "a.py": "name == 'mysql'"}, []),
        (METHODS, INTERFACE, [2, 3]),
        (CIRCLES, CIRCLE, [1, 1, 1]),
        (BASE_NAMES, AMONG, [1]),
        (CLASS_NAMES, AMONG, [1]),
        (FUNCTIONS, {"a.py": "def long():\n" + " work()\n" * 45}, [1]),
        (FUNCTIONS, {"a.py": "def short():\n" + " work()\n" * 44}, []),
        (STATES, {"a.py": "sql = f\"WHERE m.status = '{NEW}' AND m.available_at IS NULL\""}, [1, 1]),
        (STATES, {"a.py": "sql = f\"SET status = '{NEW}', available_at = {sql.parked}\""}, []),
        (STATES, {"a.py": "rows.filter(available_at__lte=now)\nrow.status == NEW\nrow.available_at > now"}, [1, 2, 3]),
        (STATES, {"a.py": "rows.create(status=NEW, available_at=now)\norder.state == NEW"}, []),
        (STATES, {"states/a.py": "row.status == NEW"}, []),
        (STATES, {"insight/why.py": "row.status == NEW"}, []),
        (STATES, {"insight/why.py": "row.status == NEW\nrow.status == DONE"}, [1, 2]),
        (STATES, {"insight/why.py": "pass"}, [1]),
        (LOOPS, {"a.py": A_LOOP, "claims/claim.py": A_LOOP}, [1]),
        (LOOPS, {"a.py": "for priority in priorities_in_use(session):\n rows += count(priority)"}, []),
        (BURIALS, {"a.py": A_BURIAL, "claims/burial.py": A_BURIAL}, [2, 3]),
        (BURIALS, {"a.py": "from django_dbqueue.claims.burial import bury\nbury(session, queue, claims)"}, []),
        (MOVERS, {"a.py": A_MOVE, "operations/ways.py": A_MOVE}, [1]),
        (MOVERS, {"a.py": "if order.verb.move is None: schedules.change(name)"}, []),
        (COLUMNS, ENVELOPE | {"a.py": SIX, "statements/message_columns.py": SIX}, [1, 2, 3]),
        (COLUMNS, ENVELOPE | {"a.py": "('a', 'b', 'c', 'd', 'e', 'delay')\nsql = 'a, b, c'"}, []),
        (
            SPENT,
            {"a.py": "0 < (most or 0) <= reads\nrow[3] and row[2] >= row[3]\nsql = 'read_count >= max_reads'"},
            [1, 2, 3],
        ),
        (SPENT, {"a.py": "reads > 1\ncount and held >= count\nsql = 'CASE WHEN read_count > 0'"}, []),
        (OLD_WORDS, {"a.py": "def give_back(who_said):\n self.isStanding = unsaid"}, [1, 1, 2]),
    ],
)
def test_a_meter_finds_these_and_nothing_else(name: str, files: Mapping[str, str], expected: list[int]) -> None:
    house = House({f"django_dbqueue/{file}": text for file, text in files.items()})
    assert sorted(each.line for each in FIGURES[name][1](house)) == expected


def test_what_has_moved_to_another_line_or_file_is_neither_new_nor_gone() -> None:
    then = [Finding("a.py", 1, "one"), Finding("a.py", 2, "two"), Finding("old.py", 3, "three")]
    now = [
        Finding("a.py", 8, "one"),
        Finding("a.py", 9, "one"),
        Finding("a.py", 9, "three"),
        Finding("new.py", 1, "three"),
    ]
    new = [Finding("a.py", 9, "one"), Finding("a.py", 9, "three")]
    assert new_and_gone(then, now, {"a.py"}) == (new, [Finding("a.py", 2, "two")])


def test_no_group_of_a_regular_expression_is_possessive(pytestconfig: pytest.Config) -> None:
    """Debian 12's Python (3.11.2) resumes such a one behind what its last turn has read in vain (gh-106052)."""
    package = pytestconfig.rootpath / "django_dbqueue"
    possessive = re.compile(r"\)[*+?]\+|\(\?>")
    found = [each.name for each in package.rglob("*.py") if possessive.search(each.read_text())]
    assert found == ["codecs.py"], "codecs.py says what it means there; a character or a class is no group"
