"""python -m benchmarks.queue.page PAGE JSON...: the docs' page of one run, or of several that ran parts.

Of a contest that several files have for the same database, the last file's counts. Charts lie beside the page, in
`images/benchmarks/`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.queue.charts import chart, numbers
from benchmarks.race import said

_NAMES: Final = {"mariadb": "MariaDB", "mysql": "MySQL", "postgres": "PostgreSQL", "sqlite": "SQLite"}
_HEAD: Final = """\
# Benchmarks

What the queue does in a second and what it costs, beside the same work by hand and beside other queues. This page is
written by `bin/bench --queue --page docs/benchmarks.md`; what each contest does, and what is not alike, says
[benchmarks/README.md](../benchmarks/README.md).

Contestants take turns, round by round, on one server, so what can be relied on is their *ratio*; the absolute numbers
belong to a machine and an hour, which two contests need not share. Given are the median and, in parentheses, the lowest
and the highest round. *Raw* is a bare loop with the database's driver on the queue's own table: what the server and the
driver can do, without a product around it.
"""


class Page:
    """Markdown, and the charts that it shows, by file name."""

    def __init__(self, runs: list[dict[str, Any]]) -> None:
        self.charts: dict[str, str] = {}
        self._runs = runs
        self._contests = _by_contest(runs)
        sections = [self._section(name) for name in self._contests]
        self.text = "\n".join([_HEAD, self._where(), *sections])

    def write(self, path: Path) -> None:
        images = path.parent / "images" / "benchmarks"
        images.mkdir(parents=True, exist_ok=True)
        for name, svg in self.charts.items():
            (images / name).write_text(svg)
        path.write_text(self.text)

    def _where(self) -> str:
        """The machine and the servers, a line for each kind of run."""
        lines = ["## Where it ran", "", "| server | Python, Django | cores |", "|---|---|---|"]
        found: dict[str, None] = {}
        for run in self._runs:
            for database, results in run["databases"].items():
                server = f"{_NAMES[database]} {results['version'].split(' ')[0]}"
                found[f"| {server} | {run['python']}, {run['django']} | {run['cores']} |"] = None
        quick = ["", "**Of a `--quick` run: too few rows to judge by.**"] if any(r["quick"] for r in self._runs) else []
        return "\n".join([*lines, *found, *quick, ""])

    def _section(self, name: str) -> str:
        contests = self._contests[name]
        unit = next(iter(contests.values()))["unit"]
        file = "".join(letter if letter.isalnum() else "_" for letter in name) + ".svg"
        figures = {_NAMES[database]: contest["figures"] for database, contest in contests.items()}
        self.charts[file] = chart(f"{name}, {unit}", unit, figures)
        return "\n".join(
            [
                f"## {name}",
                "",
                f"![{name}: bars of each contestant's median; the numbers are in the table](images/benchmarks/{file})",
                "",
                *_data(contests),
                *_table(contests, unit),
                "",
                *_verdicts(contests, unit),
            ]
        )


def _by_contest(runs: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """By contest, then by database."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for run in runs:
        for database, results in run["databases"].items():
            for contest in results["contests"]:
                found.setdefault(contest["contest"], {})[database] = contest | {"tmpfs": run["tmpfs"]}
    return found


def _data(contests: dict[str, dict[str, Any]]) -> list[str]:
    """Where the servers had their data."""
    places = {True: "in memory, where a sync costs nothing", False: "on disk"}
    found: dict[str, list[str]] = {}
    for database, contest in contests.items():
        found.setdefault(places[contest["tmpfs"]], []).append(_NAMES[database])
    if len(found) == 1:
        return [f"Data {place}." for place in found] + [""]
    return [f"Data of {', '.join(names)} {place}." for place, names in found.items()] + [""]


def _table(contests: dict[str, dict[str, Any]], unit: str) -> list[str]:
    names = dict.fromkeys(each["contestant"] for contest in contests.values() for each in contest["figures"])
    lines = [
        f"| {unit} | {' | '.join(_NAMES[database] for database in contests)} |",
        "|---" + "|---:" * len(contests) + "|",
    ]
    for name in names:
        cells = [_cell(contest, name) for contest in contests.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _cell(contest: dict[str, Any], name: str) -> str:
    for each in contest["figures"]:
        if each["contestant"] == name:
            return numbers(each)
    return ""


def _verdicts(contests: dict[str, dict[str, Any]], unit: str) -> list[str]:
    lines = [
        f"| {_NAMES[database]} | {verdict['target']['contestant']} | {_is(verdict, unit)} | {_wanted(verdict)} | "
        f"{'met' if verdict['met'] else '**not met**'} |"
        for database, contest in contests.items()
        for verdict in contest["verdicts"]
    ]
    return ["| target on | of | is | wanted | |", "|---|---|---|---|---|", *lines, ""] if lines else []


def _is(verdict: dict[str, Any], unit: str) -> str:
    if verdict["rival"] is None:
        return f"{said(verdict['figure'])} {unit}"
    return f"{verdict['judged']:.2f} × {verdict['rival']}"


def _wanted(verdict: dict[str, Any]) -> str:
    bounds = (("≥", verdict["target"]["at_least"]), ("≤", verdict["target"]["at_most"]))
    return " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)


def main() -> None:
    page, *files = map(Path, sys.argv[1:])
    Page([json.loads(file.read_text()) for file in files]).write(page)


if __name__ == "__main__":
    main()
