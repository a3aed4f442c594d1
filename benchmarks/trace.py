"""What one message costs in steps: the package's calls, files and changes of file between a verb and its statement.

    python -m benchmarks.trace                  the table
    python -m benchmarks.trace claim            every step of a claim
    python -m benchmarks.trace "second claim"   that of a claimer, which a worker keeps: it remembers the first

A step is a call of a function of the package; comprehensions and generator expressions are not counted, and a generator
counts again each time that it is resumed. SQLite, in memory.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import django

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PACKAGE: Final = str(Path(__file__).parents[1] / "django_dbqueue") + os.sep
ANONYMOUS: Final = frozenset({"<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"})


class Step(NamedTuple):
    """A call: the file below the package, and the function."""

    file: str
    function: str


def steps_of(work: Callable[[], Any]) -> list[Step]:
    """Run it, and return the package's calls in their order."""
    found: list[Step] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name not in ANONYMOUS:
            found.append(Step(code.co_filename.removeprefix(PACKAGE), code.co_qualname))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def life() -> dict[str, list[Step]]:
    """Return the steps of each verb, for one message each."""
    from django_dbqueue.models import Message

    messages = Message.objects
    steps = {"enqueue": steps_of(lambda: messages.enqueue({"a": 1}))}
    held: list[Message] = []
    steps["claim"] = steps_of(lambda: held.extend(messages.claim()))
    steps["second claim"] = second_claim()
    steps["release"] = steps_of(lambda: held.pop().release())
    held += messages.claim()
    steps["nack"] = steps_of(lambda: held.pop().nack(delay=0))
    held += messages.claim()
    steps["ack"] = steps_of(lambda: held.pop().ack())
    steps["archive"] = steps_of(lambda: messages.archive(older_than=0))
    return steps


def second_claim() -> list[Step]:
    """Return the steps of a claimer's second claim of one, and leave nothing behind."""
    from django_dbqueue.lifecycle.claimer import Claimer
    from django_dbqueue.models import Message
    from django_dbqueue.sessions.django_session import session_of

    messages = Message.objects
    messages.enqueue_many([{"a": 1}, {"a": 2}])
    claimer = Claimer(Message, session_of("default"), "default")
    claim = partial(claimer.claim, 1, lease=60, max_reads=0)
    held: list[Message] = claim()
    steps = steps_of(lambda: held.extend(claim()))
    messages.ack(held)
    messages.archive(older_than=0)
    return steps


def main(verbs: list[str]) -> None:
    """Print the table, or the steps of these verbs."""
    os.environ |= {"DJANGO_SETTINGS_MODULE": "example_project.settings", "DATABASE_URL": "sqlite://:memory:"}
    django.setup()
    from django.db import connection

    connection.creation.create_test_db(verbosity=0)
    life()  # what is imported, or remembered for good, by the first message is not the second one's
    steps = life()
    if unknown := [verb for verb in verbs if verb not in steps]:
        sys.exit(f"There is no {unknown[0]!r}: choose from {', '.join(steps)}.")
    for verb in verbs:
        print(verb, *(f"  {step.file:40} {step.function}" for step in steps[verb]), sep="\n")
    if not verbs:
        print(f"{'':14}{'calls':>8}{'files':>8}{'changes of file':>18}")
        for verb, found in steps.items():
            files = [step.file for step in found]
            changes = sum(one != other for one, other in pairwise(files))
            print(f"{verb:14}{len(found):8}{len(set(files)):8}{changes:18}")


if __name__ == "__main__":
    main(sys.argv[1:])
