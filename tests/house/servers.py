"""Where code outside ``databases/`` tells servers apart, and what of their interface has one user alone."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.house.sources import PACKAGE, Finding, House, name_of, outside

DATABASES = PACKAGE + "databases/"
VENDORS = frozenset({"mysql", "mariadb", "postgresql", "sqlite"})
NAMES_OF_SERVERS = frozenset({"MYSQL", "POSTGRESQL", "SQLITE", "SERVERS", "QUALIFIED"})
OF_A_SERVER = re.compile(r"\b(?:MySQL|PostgreSQL|SQLite)\w*\b")
INTERFACES = {"server": "Server", "sessions": "SessionsSQL"}
"""What a server is asked for, by the name of what has it. Its partitions belong to one room, history."""
OF_ONE_USER = {
    "SessionsSQL.account_of": "some accounts may not see the list of sessions, which only the exporters' message needs",
    "SessionsSQL.free_lock": "the export lets the next one in at once; who else holds a lock holds it to its end",
    "SessionsSQL.free_locks": "a guardian asks for up to a hundred locks in one statement",
    "SessionsSQL.is_held": "each beat of a worker asks: on PostgreSQL `lock_holder` reads all locks of the server",
}
"""Why these stay."""


def vendor_tests(house: House) -> Iterator[Finding]:
    """What a server is told apart by: comparisons with ``vendor``, instances of its classes, MariaDB's own flag."""
    for source in outside(house.package, DATABASES):
        for node in source.all(ast.Compare):
            if any((name_of(each) or "").endswith("vendor") for each in (node.left, *node.comparators)):
                yield source.at(node)
        for node in source.all(ast.Call):
            if name_of(node.func) == "isinstance" and OF_A_SERVER.search(ast.unparse(node.args[1])):
                yield source.at(node)
        yield from (source.at(node) for node in source.all(ast.Attribute) if node.attr == "mysql_is_mariadb")


def vendor_names(house: House) -> Iterator[Finding]:
    """The names of servers, and the constants that stand for them."""
    for source in outside(house.package, DATABASES):
        for node in source.all(ast.Constant):
            if isinstance(node.value, str) and node.value in VENDORS:
                yield source.at(node)
        for node in source.all(ast.Name, ast.Attribute):
            if name_of(node) in NAMES_OF_SERVERS:
                yield source.at(node)


def methods_of_one_user(house: House) -> Iterator[Finding]:
    """Public methods of a server and its sessions that one file alone calls, outside ``databases/``."""
    methods = {whose: _public_methods(house, name) for whose, name in INTERFACES.items()}
    users: dict[tuple[str, str], set[str]] = defaultdict(set)
    for source in outside(house.package, DATABASES):
        for node in source.all(ast.Attribute):
            if node.attr in methods.get(whose := name_of(node.value) or "", ()):
                users[whose, node.attr].add(source.file)
    for whose, found in methods.items():
        alone = (each for method, each in found.items() if len(users[whose, method]) == 1)
        yield from (each for each in alone if each.what not in OF_ONE_USER)


def _public_methods(house: House, name: str) -> dict[str, Finding]:
    """Return the public methods of a class in ``databases/``, by name."""
    found: dict[str, Finding] = {}
    for source in house.package:
        if source.file.startswith(DATABASES):
            for node in source.all(ast.ClassDef):
                if node.name == name:
                    functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                    public = [each for each in functions if not each.name.startswith("_")]
                    found |= {each.name: source.at(each, f"{name}.{each.name}") for each in public}
    return found
