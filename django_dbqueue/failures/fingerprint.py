"""Which errors are of one kind: the class of the exception, and the place that raised it.

The class is known to whoever caught the exception. The place is read from the text in the column ``error``
(``error_texts``): class and message, then the traceback. It is the file and function of the innermost frame, without
the line number, which changes with every edit. Errors without a traceback are distinguished by their class; those
without a class, and the reasons of ``Reject`` and ``Retry``, by their first words, leaving out numbers and quoted
names. Such words name no class, however they look: only a text with a traceback, one of our own, and one that begins
as Python's own exceptions do, are believed.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, takewhile
from typing import Final

from django_dbqueue.failures.error_texts import CUT, MAX_ERROR_BYTES, error_text
from django_dbqueue.redaction.masking import UNTOLD, outline
from django_dbqueue.statements.events_sql import REJECT

MAX_EXCEPTION: Final = 200
MAX_PLACE: Final = 300
WORDS: Final = 6
"""Words of a text without a class, and of the reason of a Reject or a Retry."""

_HEADER = re.compile(r"^(?: *\+ )?(?:Exception Group )?Traceback \(most recent call last\):$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.+)", line \d+, in (.+)$')
_CLASS = re.compile(r"^([^\W\d]\w*(?:\.(?:<locals>|[^\W\d]\w*))*)(?:: |:?$)")
_OF_SUBS, _BETWEEN_SUBS = "    | ", re.compile(r"^  (?:  )?\+-")
_PLACE = re.compile(r"\S+\.\w+:\S+")
_DEATH = re.compile(r"signal \d{1,2} \([A-Z0-9+]{4,12}\)|exit code \d{1,3}")
_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/")
_LONG = re.compile(
    r"""(?<!\w)'[^'\n]{200,}+(?:'(?!\w)|\Z) | (?<!\w)"[^"\n]{200,}+(?:"(?!\w)|\Z) | \S{200,}+""", re.VERBOSE
)
"""Longer runs of characters are removed first.

They don't distinguish errors (the end may be cut off), and a pattern that starts at each letter and searches for its
end would read such a run as often as it has letters.
"""
_VARIABLE = re.compile(
    r"""(?<!\w)'[^'\n]*+'(?!\w) | (?<!\w)"[^"\n]*+"(?!\w) | [^\s@]++@\S++ | \b0x[0-9a-f]++\b
    | \b(?=[0-9a-f-]*\d)(?:[0-9a-f]{8,}+|[0-9a-f]{4,}+(?=-[0-9a-f]{4}))\b(?:-[0-9a-f]{4,}+\b)*
    | \d++(?:[.,:/-]\d++)*""",
    re.VERBOSE | re.IGNORECASE,
)
_MOST_OF_WORDS: Final = 4_000
"""Characters in which the first words are found, long ones removed."""
_MOST_OF_OURS: Final = 1_000
"""Maximum length of one of our own texts."""
_PLACES: Final = {
    "TimedOut": re.compile(r"^TimedOut: (\S+) ran longer"),
    "WorkerDied": re.compile(r"^WorkerDied: .* ended by (.+)\.$"),
    "LeaseOver": re.compile(r"^LeaseOver: .* (stream \S+) ended"),
    "StreamFailed": re.compile(r"^StreamFailed: .* (stream \S+) that"),
}
"""Where our own texts, which have no traceback, name a place."""
_OURS: Final = frozenset({*_PLACES, "Retry", "WorkerGone", "Interrupted", "ReadsSpent"})
"""How our own texts begin."""
_BY_REASON: Final = ("Reject", "Retry")
"""Kinds whose place is words of a reason."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of error: the class, or what stands in for it, and the place, or ''."""

    exception: str
    place: str

    @property
    def fingerprint(self) -> str:
        """Return 64 hexadecimal digits that are equal for errors of one kind, and only for those."""
        return sha256(f"{self.exception}\0{self.place}".encode()).hexdigest()


def kind_of(error: str, exception: str | None = None) -> Kind:
    """Return the kind of an error from its text and, if it is known, the dotted path of its class."""
    text = (error_text(error) or "").strip()
    parted = _parted(text)
    if parted is None or exception == REJECT:
        return _without_traceback(text, exception)
    head, trace = parted
    end = trace.rfind(f"\n{head.removesuffix(CUT)}") if head else -1
    lines = trace[: end if end > 0 else None].split("\n")
    begin = max(number for number, line in enumerate(lines) if _HEADER.match(line))
    body, subs = lines[begin + 1 :], []
    if "Group" in lines[begin]:
        subs = _classes_of_subs(body)
        body = [line.strip()[2:] if line.strip() != "|" else "" for line in takewhile(_is_of_the_group, body)]
    frames, rest = _walk(body)
    is_cut = end < 0 and not _class_of(rest) and len(text.encode()) >= MAX_ERROR_BYTES - 3
    name = _by_traceback(exception) or _class_of(rest) or _class_of(head.split("\n")) or _words(head)
    if subs:
        name = f"{name} ({', '.join(sorted(set(subs)))})"
    return _kind(name, _first_of_the_user(frames) if is_cut else (frames[-1] if frames else ""))


def traceback_of(text: str) -> str:
    """Return the traceback in an error's text; '' if it has none."""
    parted = _parted(text.strip())
    return "" if parted is None else parted[1]


def _parted(text: str) -> tuple[str, str] | None:
    """Return what stands before the traceback, and the traceback; None if there is none.

    The message is repeated at the end of the traceback, and may look like one.
    """
    parts = [(text[: header.start()].strip(), text[header.start() :]) for header in _HEADER.finditer(text)]
    whole = (part for part in parts if part[0] and part[1].endswith(f"\n{part[0]}"))
    cut = (part for part in parts if part[0].endswith(CUT))
    return next(chain(whole, cut, parts), None)


def names_class(exception: str, place: str, name: str) -> bool:
    """Return whether a kind's exception, or place, names a class rather than being the first words of some text."""
    if name == "place":
        if exception in _PLACES:  # anybody can write a text that looks like ours
            return exception == "WorkerDied" and _DEATH.fullmatch(place) is not None
        return exception not in _BY_REASON or _PLACE.fullmatch(place) is not None
    name_alone = exception.partition(" (")[0]
    if _CLASS.match(name_alone) is None:
        return False
    # A single word may be a reason that somebody gave; what was raised has a place.
    return bool(place) or outline(f"{name_alone}:") != UNTOLD


def _without_traceback(text: str, exception: str | None) -> Kind:
    if exception == REJECT:
        return _kind("Reject", _words(text))
    lines = text.split("\n")
    name = _class_of(lines[:1]) or (_class_of(lines) if text.startswith('File "') else "")
    if name == "Retry":
        return _kind(name, _words(text.removeprefix("Retry: ")))
    if name in _OURS:
        match = _PLACES[name].match(text) if name in _PLACES and len(text) <= _MOST_OF_OURS else None
        return _kind(name, match[1] if match else "")
    if exception is not None:
        return _kind(_by_traceback(exception), "")
    if isinstance(getattr(builtins, name, None), type):
        return _kind(name, "")
    return _kind(_words(text), "")


def _by_traceback(exception: str | None) -> str:
    """Return the path of a class as the last line of a traceback has it; '' for None."""
    return (exception or "").removeprefix("builtins.").removeprefix("__main__.")


def _kind(exception: str, place: str) -> Kind:
    if len(place) > MAX_PLACE:
        place = f"…{place[1 - MAX_PLACE :]}"
    return Kind(exception[:MAX_EXCEPTION], place)


def _walk(lines: Sequence[str]) -> tuple[list[str], Sequence[str]]:
    """Return the places of a traceback's frames, innermost last, and the lines after them: class and message."""
    frames: list[str] = []
    for number, line in enumerate(lines):
        if match := _FRAME.match(line):
            frames.append(f"{_relative(match[1])}:{match[2]}")
        elif line and not line.startswith(("    ", "  [Previous line repeated")):
            return frames, lines[number:]
    return frames, ()


def _class_of(lines: Sequence[str]) -> str:
    """Return the class named by the first line that can name one; a SyntaxError shows its source first."""
    return next((match[1] for line in lines if (match := _CLASS.match(line))), "")


def _is_of_the_group(line: str) -> bool:
    return line.startswith("  |")


def _classes_of_subs(lines: Sequence[str]) -> list[str]:
    """Return the class of each exception that a group contains."""
    parts: list[list[str]] = []
    for line in lines:
        if _BETWEEN_SUBS.match(line):
            parts.append([])
        elif parts and line.startswith(_OF_SUBS):
            parts[-1].append(line.removeprefix(_OF_SUBS))
    found = []
    for part in parts:
        begin = max((number + 1 for number, line in enumerate(part) if _HEADER.match(line)), default=0)
        found.append(_class_of(_walk(part[begin:])[1]))
    return [name for name in found if name]


def _first_of_the_user(frames: Sequence[str]) -> str:
    """Return the handler's own frame: in a truncated text, the innermost frame left is there by chance."""
    return next((place for place in frames[:-1] if not place.startswith("django_dbqueue/")), "")


def _relative(file: str) -> str:
    """Return a file's path relative to its import root: the same wherever the code is deployed."""
    file = file.replace("\\", "/")
    if _PACKAGES.match(file):
        return _PACKAGES.sub("", file)
    roots = (entry.replace("\\", "/").rstrip("/") + "/" for entry in sys.path if entry.strip("/\\"))
    return file.removeprefix(max((root for root in roots if file.startswith(root)), key=len, default=""))


def _words(text: str) -> str:
    first = _LONG.sub("…", text.strip().partition("\n")[0])[:_MOST_OF_WORDS]
    return " ".join(_VARIABLE.sub("…", first).split()[:WORDS])
