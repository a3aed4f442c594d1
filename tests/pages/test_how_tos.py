"""The how-to guides: their commands and code are what the worker, the parsers and the package really take."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from argparse import ArgumentParser
from pathlib import Path

import pytest
from django.core.management import load_command_class

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
HOW_TO = ROOT / "docs" / "how-to"
PAGES = {path.stem: path.read_text() for path in sorted(HOW_TO.glob("*.md"))}

pages = pytest.mark.parametrize("page", PAGES)


def _blocks(page: str, language: str) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", PAGES[page], re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def _parser(command: str) -> ArgumentParser:
    return load_command_class("django_dbqueue", command).create_parser("manage.py", command)


def _commands(text: str) -> list[list[str]]:
    """Commands as one types them, and as lists of words in YAML."""
    listed = re.sub(r'"command: |", "|\["|"\]', " ", text)
    found = re.findall(r"manage\.py ((?:queue_\w+|run_queue_worker)\b[^`\n]*)", listed)
    return [shlex.split(line, comments=True) for line in found]


@pages
def test_every_option_that_is_named_with_a_command_exists(page: str) -> None:
    for command, *words in _commands(PAGES[page]):
        options = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
        assert options <= _parser(command)._option_string_actions.keys(), command


@pages
def test_every_command_to_type_is_complete(page: str) -> None:
    typed = re.findall(r"^\$ python (manage\.py .*)$", "\n".join(_blocks(page, "console")), re.MULTILINE)
    for command, *words in _commands("\n".join(typed)):
        _parser(command).parse_args(words)


def test_commands_are_found_where_they_stand() -> None:
    text = '`manage.py queue_status --check`\ncommand: ["python", "manage.py", "run_queue_worker", "--processes", "2"]'
    assert _commands(text) == [["queue_status", "--check"], ["run_queue_worker", "--processes", "2"]]
    assert sum(len(_commands(text)) for text in PAGES.values()) > 15


@pages
def test_python_compiles_and_imports_what_is_there(page: str) -> None:
    for block in _blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("django_dbqueue"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, alias.name) for alias in node.names)


def test_the_numbers_of_the_choice_are_those_of_the_benchmarks() -> None:
    """One run, one page: what it says of four workers is in the generated table, word for word."""
    contest = (ROOT / "docs" / "benchmarks.md").read_text().partition("\n## drain, 4\n")[2].partition("\n## ")[0]
    measured = {
        cells[0]: [cell.partition(" ")[0] for cell in cells[1:4]]
        for cells in ([cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\|.*\|$", contest, re.M))
    }
    names = {
        "django_dbqueue": "worker",
        "django-tasks-db": "django_tasks_db",
        "django-q2": "django_q2",
        "Huey": "huey",
        "Procrastinate": "procrastinate",
        "graphile-worker (Node.js)": "graphile_worker",
        "pg-boss (Node.js)": "pg_boss",
    }
    table = PAGES["choose"].partition("\n| messages/s |")[2].partition("\n\n")[0]
    stated = {
        cells[0]: cells[1:]
        for cells in ([cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:])
    }
    assert stated == {name: measured[theirs] for name, theirs in names.items()}
