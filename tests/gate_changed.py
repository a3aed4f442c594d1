"""The part `changed` of the gate: where a test file runs that the change adds or edits."""

from __future__ import annotations

from tests.gate import KILLS, KILLS_ON_POSTGRESQL, OF_A_SERVER
from tests.servers.parts import ON_A_SERVER, SLOW, Part

PARTS = (
    Part("what has changed", ["sqlite"], ["tests"], at_once=0),
    *(Part("what has changed", [server], tests, marks=ON_A_SERVER, at_once=0) for server, tests in OF_A_SERVER.items()),
    Part("what has changed of processes", ["mariadb"], ["tests/process", *KILLS], marks=ON_A_SERVER, at_once=0),
    Part("what has changed of kills", ["postgres"], KILLS_ON_POSTGRESQL, marks=ON_A_SERVER, at_once=0),
    Part("what has changed on Spark", ["mariadb"], ["tests/spark"], marks="spark and not nightly", at_once=0),
)
"""Each runs three times (``parts.TIMES``), in as many orders."""
MOST_FILES = 30
"""How many of these have the time of the gate. A change of more is one of many small ones: see what it adds."""
ONCE = Part(
    "what has changed of the slow",
    ["sqlite"],
    ["tests"],
    ["tests/admin/test_scale.py", "tests/monitors/test_scrape_at_scale.py"],  # ten million rows take most of an hour
    marks=SLOW,
    at_once=0,
)
"""What is slow runs once."""
MOST_SLOW_FILES = 3
