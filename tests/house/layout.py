"""How modules, files and functions lie: circles of imports, names that occur twice, what is too long."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.house.sources import Finding, House, Source

MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION = 300, 45


def modules_in_circles(house: House) -> Iterator[Finding]:
    """Modules that import one another, by whatever way round; imports of functions and for type checkers count."""
    modules = {source.module: source for source in house.package}
    imports = {name: set(imports_of(source, modules)) for name, source in modules.items()}
    for circle in circles_of(imports):
        for name in circle:
            others = ", ".join(sorted(imports[name] & circle))
            yield Finding(modules[name].file, 1, f"imports {others}, which comes back to it")


def imports_of(source: Source, modules: Collection[str]) -> Iterator[str]:
    """Return the modules of the package that it imports, names of a room's ``__init__`` as that room."""
    for node in source.all(ast.ImportFrom):
        if node.module and f"{node.module}.".startswith("django_dbqueue."):
            room = node.module.removeprefix("django_dbqueue").strip(".")
            for alias in node.names:
                name = f"{room}.{alias.name}".strip(".")
                found = name if name in modules else room
                if found != source.module:
                    yield found
    for node in source.all(ast.Import):
        for alias in node.names:
            if (name := alias.name.removeprefix("django_dbqueue.")) in modules:
                yield name


def circles_of(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of two or more that all reach one another."""
    reached = {name: _reached_from(name, edges) for name in edges}
    circles = {name: frozenset(other for other in reached[name] if name in reached[other]) for name in edges}
    return [set(each) for each in sorted(set(circles.values()), key=sorted) if len(each) > 1]


def _reached_from(name: str, edges: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        fresh = edges.get(waiting.pop(), set()) - found
        found |= fresh
        waiting += fresh
    return found


def base_names_twice(house: House) -> Iterator[Finding]:
    """Modules and rooms whose last name another has; commands are named by what people type."""
    found: dict[str, list[Source]] = defaultdict(list)
    for source in house.package:
        if source.module and "/commands/" not in source.file:
            found[source.module.rpartition(".")[2]].append(source)
    yield from _twice(found, lambda source: Finding(source.file, 1, source.module))


def class_names_twice(house: House) -> Iterator[Finding]:
    """Classes that share their name with another; Django asks for several of one name itself."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for source in house.package:
        for node in source.all(ast.ClassDef):
            if node.name not in {"Meta", "Media", "Command", "Migration"}:
                found[node.name].append(source.at(node, f"class {node.name}"))
    yield from _twice(found, lambda each: each)


def _twice(found: Mapping[str, Sequence[Any]], finding: Callable[[Any], Finding]) -> Iterator[Finding]:
    """All but the first of each name: as many as have to be renamed."""
    for _, each in sorted(found.items()):
        yield from map(finding, each[1:])


def long_files(sources: Iterable[Source]) -> Iterator[Finding]:
    for source in sources:
        if (lines := source.text.count("\n")) > MOST_LINES_OF_A_FILE:
            yield Finding(source.file, 1, f"more than {MOST_LINES_OF_A_FILE} lines: {lines}")


def long_functions(sources: Iterable[Source]) -> Iterator[Finding]:
    for source in sources:
        for node in source.all(ast.FunctionDef, ast.AsyncFunctionDef):
            if node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION:
                yield source.at(node, f"def {node.name}")
