"""Where code outside ``databases/`` tells servers apart, and what of the dialect has one user alone."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.house.sources import PACKAGE, name_of, outside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.house.sources import Finding, House, Source

DATABASES = PACKAGE + "databases/"
VENDORS = frozenset({"mysql", "mariadb", "postgresql", "sqlite"})
NAMES_OF_SERVERS = frozenset({"MYSQL", "POSTGRESQL", "SQLITE", "SERVERS", "QUALIFIED"})
OF_A_SERVER = re.compile(r"\b(?:ServerDialect|(?:MySQL|PostgreSQL|SQLite)\w*)\b")


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
    """Public methods of the dialect's subjects that one file alone calls, outside ``databases/``.

    Where one interface takes the subjects' place, its methods are to be counted here.
    """
    subjects = subjects_of(house)
    users: dict[tuple[str, str], set[str]] = defaultdict(set)
    for source in outside(house.package, DATABASES):
        for subject, method in calls_of(source, subjects):
            users[subject, method].add(source.file)
    for subject, methods in subjects.items():
        for method, found in methods.items():
            if len(users[subject, method]) == 1:
                yield found


def subjects_of(house: House) -> Mapping[str, Mapping[str, Finding]]:
    """Return the public methods of each attribute of the dialect that is a ``Subject``, inherited ones too."""
    sources = [source for source in house.package if source.file.startswith(DATABASES)]
    classes = {node.name: (source, node) for source in sources for node in source.all(ast.ClassDef)}
    dialect = (source for source in sources if source.file == DATABASES + "dialect.py")
    attributes = [node.targets[0] for source in dialect for node in source.all(ast.Assign)]
    names = {each.attr: class_of(each.attr) for each in attributes if isinstance(each, ast.Attribute)}
    return {name: _public_methods(found, classes) for name, found in names.items() if found in classes}


def class_of(subject: str) -> str:
    """Return the class of a subject: ``StreamClaimsSQL`` for ``stream_claims``."""
    return "".join(map(str.capitalize, subject.split("_"))) + "SQL"


def _public_methods(name: str, classes: Mapping[str, tuple[Source, ast.ClassDef]]) -> dict[str, Finding]:
    source, node = classes[name]
    inherited = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
    found = {method: each for base in inherited for method, each in _public_methods(base, classes).items()}
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")]
    return found | {each.name: source.at(each, f"{name}.{each.name}") for each in methods}


def calls_of(source: Source, subjects: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What a file names of subjects: ``….claims.take``, or ``rows.take`` where ``rows`` was set or declared as one."""
    aliases: dict[str, set[str]] = {subject: set() for subject in subjects}
    for node in source.all(ast.Assign):
        for target, value in _assigned(node.targets[0], node.value):
            if isinstance(target, ast.Name) and (subject := name_of(value)) in aliases:
                aliases[subject].add(target.id)
    for node in source.all(ast.arg, ast.AnnAssign):
        declared = ast.unparse(node.annotation) if node.annotation else ""
        for subject in aliases:
            if re.search(rf"\b{class_of(subject)}\b", declared):
                aliases[subject].add(node.arg if isinstance(node, ast.arg) else name_of(node.target) or "")
    for node in source.all(ast.Attribute):
        if isinstance(node.value, ast.Attribute) and node.value.attr in aliases:
            yield node.value.attr, node.attr
        elif isinstance(node.value, ast.Name):
            yield from ((subject, node.attr) for subject in aliases if node.value.id in aliases[subject])


def _assigned(target: ast.expr, value: ast.expr) -> Iterable[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return zip(target.elts, value.elts, strict=True)
    return [(target, value)]
