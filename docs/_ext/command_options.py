"""The options of every command, from its parser: names, defaults, and what ``--help`` says of each."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.core.management import load_command_class
from django.core.management.base import BaseCommand
from generated import NotDescribed

import django_dbqueue

COMMANDS: Final = Path(django_dbqueue.__file__).parent / "management" / "commands"


def options_of_all() -> str:
    """Return a section for each command."""
    names = sorted(path.stem for path in COMMANDS.glob("*.py") if path.stem != "__init__")
    return "\n\n".join(_section(name) for name in names)


def _section(name: str) -> str:
    command = load_command_class("django_dbqueue", name)
    if not command.help:
        raise NotDescribed(f"the command {name} has no help")
    parser = command.create_parser("manage.py", name)
    of_all = {
        option for one in BaseCommand().create_parser("manage.py", name)._actions for option in one.option_strings
    }
    parts = [f"## {name}", _escaped(str(command.help))]
    parts.extend(_parts(parser, f"manage.py {name}", of_all))
    return "\n\n".join(parts)


def _parts(parser: ArgumentParser, path: str, of_all: set[str]) -> Iterator[str]:
    """Yield the table of a parser, and the headings and tables of its subcommands."""
    actions = [one for one in parser._actions if one.help != SUPPRESS and not of_all & {*one.option_strings}]
    rows = [_row(one, path) for one in actions if not isinstance(one, _SubParsersAction)]
    if rows:
        yield "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])
    for nested in actions:
        if isinstance(nested, _SubParsersAction):
            yield from _of_subcommands(nested, path, of_all)


def _of_subcommands(nested: _SubParsersAction[ArgumentParser], path: str, of_all: set[str]) -> Iterator[str]:
    said = {one.dest: one.help for one in nested._choices_actions}
    for name, parser in nested.choices.items():
        if not said.get(name):
            raise NotDescribed(f"{path} {name} has no help")
        yield f"### {path.removeprefix('manage.py ')} {name}"
        yield _escaped(str(said[name]))
        yield from _parts(parser, f"{path} {name}", of_all)


def _row(action: Action, path: str) -> str:
    if not action.help:
        raise NotDescribed(f"{path}: {action.option_strings or action.dest} has no help")
    return f"| {_name(action)} | {_default(action)} | {_meaning(action)} |"


def _name(action: Action) -> str:
    value = ""
    if action.nargs != 0 and not isinstance(action.metavar, tuple):
        value = str(action.metavar or (action.dest.upper() if action.option_strings else action.dest))
    if not action.option_strings:
        return f"`{value}{' …' if action.nargs in ('*', '+') else ''}`"
    named = ", ".join(f"`{option}`" for option in action.option_strings[:-1])
    return ", ".join(filter(None, [named, f"`{action.option_strings[-1]}{f' {value}' if value else ''}`"]))


def _default(action: Action) -> str:
    if action.required and action.option_strings:
        return "required"
    if action.nargs == 0 or action.default in (None, SUPPRESS, []):
        return ""
    return f"{action.default:,}" if isinstance(action.default, int) else f"`{action.default}`"


def _meaning(action: Action) -> str:
    text = _escaped(str(action.help))
    if action.choices is None:
        return text
    return f"{text}: {', '.join(f'`{choice}`' for choice in action.choices)}"


def _escaped(text: str) -> str:
    for mark in r"\`*_<>|[]":
        text = text.replace(mark, "\\" + mark)
    return text.replace("%%", "%")
