"""What the minutes of a run were for, by the folders of the tests."""

from __future__ import annotations

from collections import Counter
from xml.etree.ElementTree import Element

_MOST = 6


def dearest_folders(suite: Element) -> str:
    """The folders that took the most seconds, set-up included, of all processes together; dearest first."""
    seconds: Counter[str] = Counter()
    for case in suite.iter("testcase"):
        folder, *_module = case.get("classname", "").removeprefix("tests.").split(".")
        seconds[folder] += float(case.get("time", 0))
    dear = [f"{folder} {spent:.0f}" for folder, spent in seconds.most_common(_MOST) if spent >= 1]
    return f"seconds of tests: {', '.join(dear)}" if dear else ""
