"""The tables of settings and options.

Options come from ``settable/option_table.py``; names and defaults of settings from ``conf.py``, and its comments
(``#:``) as their meaning.
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import Final

from generated import NotDescribed

from django_dbqueue import conf
from django_dbqueue.settable.option_table import OPTIONS, OPTIONS_OF, REQUIRED, Option, SetIn

NAMED: Final = {"TOP_LEVEL": "key"}
"""What the first column is called, if not option."""
DAY: Final = 86_400


OF_CONF: Final = {"PER_QUEUE": SetIn.QUEUE, "PER_SCHEDULE": SetIn.SCHEDULE}
"""Dicts of ``conf.py`` that are made of the table of options."""


def table_of(name: str) -> str:
    """Return one of the dicts of ``conf.py`` as a table."""
    defaults = getattr(conf, name)
    if name in OF_CONF:
        options = OPTIONS_OF[OF_CONF[name]]
        described = {each.name: each.meaning for each in options.values()}
        shown = {each.name: each.shown for each in options.values() if each.shown}
        shown |= dict.fromkeys(REQUIRED, "required")
        where = "in django_dbqueue/settable/option_table.py"
    else:
        described, shown = _descriptions(inspect.getsource(conf), name), {}
        where = "'#: …' above it in django_dbqueue/conf.py"
    rows = []
    for key, default in defaults.items():
        if not described.get(key):
            raise NotDescribed(f"{name}[{key!r}] has no description: write {where}")
        rows.append((key, shown.get(key) or _shown(default), described[key]))
    return _table(NAMED.get(name, "option"), rows)


def options_of(place: str) -> str:
    """Return a table of what tasks take, or of what a consumer takes besides what queues and schedules do."""
    options = OPTIONS_OF[SetIn[place]]
    if SetIn[place] is SetIn.CONSUMER:
        elsewhere = OPTIONS_OF[SetIn.QUEUE].keys() | OPTIONS_OF[SetIn.SCHEDULE].keys()
        options = {name: each for name, each in options.items() if name not in elsewhere}
    return _table("option", [(name, _default(each), each.meaning) for name, each in options.items()])


def places() -> str:
    """Return a table of where each option may be set, and why it may not be elsewhere."""
    shown = [place for place in SetIn if place is not SetIn.SCHEDULE]
    rows = [
        f"| option | {' | '.join(f'`{place.value}`' for place in shown)} | elsewhere not, because |",
        f"|---|{'---|' * len(shown)}---|",
    ]
    for name in dict.fromkeys(each.name for each in OPTIONS if each.places != (SetIn.SCHEDULE,)):
        alike = [each for each in OPTIONS if each.name == name]
        cells = ["yes" if any(place in each.places for each in alike) else "" for place in shown]
        why = "" if all(cells) else next((each.why_not for each in alike if each.why_not), "")
        if not (why or all(cells)):
            raise NotDescribed(f"{name} has no why_not: write why other places can't take it")
        rows.append(f"| `{name}` | {' | '.join(cells)} | {why} |")
    return "\n".join(rows)


def _default(option: Option) -> str:
    if option.shown or SetIn.TASK not in option.places or not option.of_queue:
        return option.shown or _shown(option.default)
    named = "" if option.of_queue == option.name else f" `{option.of_queue}`"
    of_queue = OPTIONS_OF[SetIn.QUEUE][option.of_queue].default
    return f"the queue's{named}" + ("" if of_queue is None else f": {_shown(of_queue)}")


def _table(first: str, rows: list[tuple[str, str, str]]) -> str:
    lines = (f"| `{name}` | {default} | {meaning} |" for name, default, meaning in rows)
    return "\n".join([f"| {first} | default | meaning |", "|---|---|---|", *lines])


def _descriptions(source: str, name: str) -> dict[str, str]:
    """Return by key what the comments directly above it say."""
    lines = source.splitlines()
    [assigned] = [
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name
    ]
    assert isinstance(assigned, ast.Dict)
    return {
        key.value: _comment_above(lines, key.lineno - 1)
        for key in assigned.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def _comment_above(lines: list[str], line: int) -> str:
    parts: list[str] = []
    while line and (comment := re.match(r" *#: ?(.*)", lines[line - 1])):
        parts.insert(0, comment[1].strip())
        line -= 1
    return " ".join(parts)


def _shown(default: object) -> str:
    if isinstance(default, bool) or not isinstance(default, (int, float)):
        return f'`"{default}"`' if isinstance(default, str) else f"`{default!r}`"
    text = f"{default:,.0f}" if default == int(default) else f"{default:,}"
    if isinstance(default, float) and default >= DAY and default % DAY == 0:
        return f"{text} ({default / DAY:.0f} days)"
    return text
