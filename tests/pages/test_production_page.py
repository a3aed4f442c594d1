"""docs/how-to/production.md can be followed: each of its commands, in its order, in a project that has its settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.pages.page_project import ON_SQLITE, ROOT, make_project, run_there, shell

PAGE = (ROOT / "docs" / "how-to" / "production.md").read_text()
CONSUMERS = """
from django_dbqueue import consumer


@consumer("emails")
def send_email(message):
    print("sent to", message.payload)
"""
DURABLE = """
DATABASES["default"]["OPTIONS"]["init_command"] += "; PRAGMA synchronous=FULL"
"""

pytestmark = ON_SQLITE


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def test_each_command_succeeds_where_the_page_has_it(tmp_path: Path) -> None:
    """On SQLite instead of the page's PostgreSQL, with what its table asks of SQLite."""
    databases, retention = blocks("python")
    assert "postgresql" in databases
    make_project(tmp_path, "mail", {"queue_consumers": CONSUMERS}, configured=DURABLE + retention)
    shell(tmp_path, "from django_dbqueue.models import Message", "Message.objects.enqueue('ann', queue='emails')")
    outputs = {}
    for line in re.findall(r"^\$ python manage\.py (.*)$", "\n".join(blocks("console")), re.M):
        outputs[line] = run_there(tmp_path, *shlex.split(line))
    assert len(outputs) == 9
    assert "sent to ann" in outputs["run_queue_worker --processes 2 --threads 4 --drain"]
    assert outputs["queue_status --check --ignore no-worker --max-age 300"] == ""
    assert "restored from the back-up" in outputs["queue_status emails"]


def test_its_parts_are_what_a_team_has_to_see_to() -> None:
    parts = re.findall(r"^## \d\. (.*)$", PAGE, re.M)
    wanted = ("commits", "Sessions", "worker", "Deploys", "Recycling", "Probes", "Alerts", "Retention", "Back-up")
    assert len(parts) == len(wanted)
    assert [part for part, word in zip(parts, wanted, strict=True) if word not in part] == []


def test_its_sum_of_sessions_is_right() -> None:
    processes, threads, hosts = 4, 8, 2
    sum_ = hosts * (processes * (threads + 3) + 1)
    assert f"2 × (4 × 11 + 1) = {sum_} on PostgreSQL" in PAGE
