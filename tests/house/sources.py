"""The source of the package, of its tests and benchmarks, parsed once; of today, or as a commit has it."""

from __future__ import annotations

import ast
import io
import subprocess
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TOPS = PACKAGE, TESTS, BENCHMARKS = "django_dbqueue/", "tests/", "benchmarks/"


class Finding(NamedTuple):
    """Something that a meter counts: where it is, and what. Two are the same if only their lines differ."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


class Source:
    """A file, and the nodes of its tree by their type."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text

    @property
    def module(self) -> str:
        """Its name below the package: ``lifecycle.claim``; that of a room for its ``__init__``."""
        return self.file.removeprefix(PACKAGE).removesuffix(".py").removesuffix("__init__").strip("/").replace("/", ".")

    @cached_property
    def nodes(self) -> Mapping[type[ast.AST], list[Any]]:
        found: dict[type[ast.AST], list[Any]] = defaultdict(list)
        open_nodes: list[ast.AST] = [ast.parse(self.text)]
        while open_nodes:
            node = open_nodes.pop()
            found[type(node)].append(node)
            fields: tuple[str, ...] = node.__match_args__
            for field in fields:
                value = getattr(node, field)
                if isinstance(value, ast.AST) and field != "ctx":
                    open_nodes.append(value)
                elif isinstance(value, list):
                    open_nodes += [each for each in value if isinstance(each, ast.AST)]
        return found

    def all(self, *types: type[ast.AST]) -> Iterator[Any]:
        """Every node of these types."""
        for each in types:
            yield from self.nodes.get(each, ())

    def at(self, node: Any, what: str | None = None) -> Finding:
        return Finding(self.file, node.lineno, what or " ".join(ast.unparse(node).split()))

    def literals(self) -> Iterator[tuple[Any, str]]:
        """Every text but docstrings, with what an f-string inserts in braces."""
        parts = {id(part) for text in self.all(ast.JoinedStr) for part in text.values}
        parts |= {id(each.value) for each in self.all(ast.Expr)}
        for node in self.all(ast.Constant):
            if isinstance(node.value, str) and id(node) not in parts:
                yield node, node.value
        for node in self.all(ast.JoinedStr):
            yield (
                node,
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                    for part in node.values
                ),
            )


class House:
    """All sources: the package's, the tests' and the benchmarks'."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = frozenset(files)
        sources = [Source(file, text) for file, text in sorted(files.items()) if file.endswith(".py")]
        self.package = [each for each in sources if each.file.startswith(PACKAGE) and "/migrations/" not in each.file]
        self.tests = [each for each in sources if each.file.startswith(TESTS)]
        self.benchmarks = [each for each in sources if each.file.startswith(BENCHMARKS)]
        self.routines = [(file, text) for file, text in sorted(files.items()) if file.endswith(".sql")]

    @classmethod
    def today(cls) -> House:
        paths = [path for top in TOPS for kind in ("py", "sql") for path in (ROOT / top).rglob(f"*.{kind}")]
        return cls({path.relative_to(ROOT).as_posix(): path.read_text() for path in paths})

    @classmethod
    def when_last_changed(cls, path: str) -> House | None:
        """As the last commit has it that changed this file; None where there is no history."""
        commit = _git("log", "-1", "--format=%H", "--", path).decode().strip()
        archive = _git("archive", "--format=tar", commit, *TOPS) if commit else b""
        if not archive:
            return None
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            members = [each for each in tar if each.isfile() and each.name.endswith((".py", ".sql"))]
            return cls({each.name: tar.extractfile(each).read().decode() for each in members})  # type: ignore[union-attr]


def outside(sources: Iterable[Source], room: str) -> Iterator[Source]:
    return (source for source in sources if not source.file.startswith(room))


def name_of(node: ast.expr | None) -> str | None:
    """Return a name, or the last one of ``a.b.c``."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def new_and_gone(
    then: Iterable[Finding], now: Iterable[Finding], lasting: Container[str]
) -> tuple[list[Finding], list[Finding]]:
    """What is there beyond what was there, and the reverse; what is in another file now is neither.

    ``lasting`` are the files that are there at both times: what has moved did so rather between two others.
    """
    then, now = list(then), list(now)
    new, gone = (
        sorted(_beyond(some, others, lambda each: (each.file, each.what)), key=lambda each: each.file in lasting)
        for some, others in ((now, then), (then, now))
    )
    return _beyond(new, gone, lambda each: each.what), _beyond(gone, new, lambda each: each.what)


def _beyond(some: Iterable[Finding], others: Iterable[Finding], key: Callable[[Finding], object]) -> list[Finding]:
    """Return what the others lack; where they have fewer of one, the last."""
    known = Counter(map(key, others))
    left: list[Finding] = []
    for each in some:
        known[key(each)] -= 1
        if known[key(each)] < 0:
            left.append(each)
    return left


def _git(*arguments: str) -> bytes:
    """What git prints, or nothing where it fails: an archive of the source has no history."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""
