"""What is planted: a text, which occurs once in its file, and another that takes its place."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

_NEEDED = ("name", "promise", "file", "text", "instead", "tests")


class NotPlanted(Exception):
    """The bug can't be planted, and why; the message names it."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug. ``tests`` must fail with it, on each database of ``on``."""

    name: str
    promise: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]
    on: tuple[str, ...] = ("sqlite",)
    hangs: bool = False
    """Whether tests that come to no end are a catch."""

    def source(self, root: Path) -> str:
        """Return its file with the bug in it; raise NotPlanted where the text isn't there exactly once."""
        path = root / self.file
        if not path.is_file():
            raise NotPlanted(f"{self.name}: there is no {self.file}; name the file to which its text has moved")
        source = path.read_text()
        if (times := source.count(self.text)) != 1:
            raise NotPlanted(
                f"{self.name}: its text occurs {times} times in {self.file}, not once; say the bug in today's words"
            )
        changed = source.replace(self.text, self.instead)
        if path.suffix == ".py":
            try:
                compile(changed, self.file, "exec")
            except SyntaxError as error:
                raise NotPlanted(f"{self.name}: {self.file} is no Python with it: {error}") from error
        return changed

    def check_tests(self, root: Path) -> None:
        """Raise NotPlanted where one of its tests isn't there."""
        for test in self.tests:
            name, _, function = test.partition("::")
            path = root / name
            if not path.is_file() or (function and f"def {function}(" not in path.read_text()):
                raise NotPlanted(f"{self.name}: there is no {test}; name the test that must see it now")

    def is_seen_by(self, case: str) -> bool:
        """Whether this case, by pytest's name, is one of its tests."""
        return any(case == test or case.startswith((f"{test}::", f"{test}[")) for test in self.tests)


def read(file: Path) -> list[Mutant]:
    """Read the bugs of a file; raise NotPlanted where one isn't whole."""
    found = []
    for entry in tomllib.loads(file.read_text()).get("mutant", []):
        name = entry.get("name", "a bug without a name")
        if missing := [key for key in _NEEDED if key not in entry]:
            raise NotPlanted(f"{file.name}, {name}: it has no {', '.join(missing)}")
        if unknown := entry.keys() - Mutant.__dataclass_fields__.keys():
            raise NotPlanted(f"{file.name}, {name}: it may have no {', '.join(sorted(unknown))}")
        lists = {key: tuple(entry[key]) for key in ("tests", "on") if key in entry}
        found.append(Mutant(**entry | lists))
    return found


def read_all(directory: Path) -> list[Mutant]:
    """Read the bugs of all files there; raise NotPlanted where two have one name."""
    mutants = [mutant for file in sorted(directory.glob("*.toml")) for mutant in read(file)]
    names = [mutant.name for mutant in mutants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise NotPlanted(f"two bugs have one name: {', '.join(twice)}")
    return mutants
