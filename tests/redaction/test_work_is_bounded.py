"""What a payload or an error says can't hold up its worker, or who looks at it: the work grows no faster than the text.

Each text is tried in a process of its own, which the kernel ends after a number of seconds of CPU that is far beyond
what it needs, and far below what one that grows with the square of the text takes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import ROOT

SIZE = 16_000
KINDS = {
    "one long word": "unknown order " + "x" * SIZE,
    "hexadecimal digits": "unknown order 1" + "a" * SIZE + "g",
    "hexadecimal groups": "unknown order " + "abcd-" * (SIZE // 5) + "1g",
    "dots": "a." * (SIZE // 2),
    "a class of many parts": "A" + ".b" * (SIZE // 2) + "!",
    "quotes": "no " + "' " * (SIZE // 2),
    "addresses": "no " + "@" * SIZE,
    "numbers": "1-" * (SIZE // 2),
    "words as long as they may be": ("x" * 199 + " ") * (SIZE // 200),
    "nearly ours": "WorkerDied: " + " ended by " * (SIZE // 10),
    "tracebacks": "Traceback (most recent call last):\n" * (SIZE // 35),
}
NESTED = ["a" * length for length in range(1, 1_400)]
VALUES: dict[str, tuple[Any, str]] = {
    "each begins like the next": (NESTED, "ValueError: " + "a" * 15_000 + "b"),
    "each nearly ends the text": (NESTED, "ValueError: " + ("a" * 500 + "b" + "a" * 499) * 15),
    "very many": (list(range(100_000, 109_900)), "ValueError: " + " ".join(map(str, range(100_000, 102_000)))),
    "very many short ones": (list(range(10, 999)), "ValueError: " + " ".join(map(str, range(10, 999))) * 4),
    "very many fields": (
        {f"f{number}": 1 for number in range(9_900)},
        "ValueError: " + " ".join(f"f{number}=1" for number in range(1_800)),
    ),
    "one that is as large as a payload may be": ('"\\é' * 250_000, "ValueError: " + '"\\é' * 5_000),
}
KIND = "from django_dbqueue.failures.fingerprint import kind_of; print(kind_of(json.load(sys.stdin)).exception)"
SHOWN = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django; django.setup()
from django.conf import settings; settings.DBQUEUE = {"REDACT": ["s"]}
from tests.redaction.contents import row, shown
value, text = json.load(sys.stdin)
print(shown(text, row({"s": value})))
"""


def run(program: str, value: Any, seconds: int) -> str:
    """What a program prints that may take so many seconds of CPU."""
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{program}"],
        input=json.dumps(value),
        capture_output=True,
        text=True,
        cwd=ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return done.stdout.strip()


@pytest.mark.once
@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS)
def test_no_text_of_an_error_takes_long_to_be_put_into_its_group(text: str) -> None:
    assert len(run(KIND, text, 3)) <= 200


def test_what_differs_from_error_to_error_is_left_out_however_long_it_is() -> None:
    from django_dbqueue.failures.fingerprint import kind_of

    one, other = (kind_of(f"unknown order {quote}{letter * SIZE}{quote}") for quote, letter in (("", "x"), ("'", "y ")))
    assert one == other == kind_of("unknown order 'x'")


@pytest.mark.once
@pytest.mark.parametrize(("value", "text"), VALUES.values(), ids=VALUES)
def test_no_payload_takes_long_to_be_masked_in_an_error(value: Any, text: str) -> None:
    shown = run(SHOWN, [value, text], 12)
    assert shown.startswith("ValueError")
    assert "aaaa" not in shown
    assert "10000" not in shown
    assert "f1=1" not in shown
