"""docs/groups.md does what it says: its four recipes, each in a project of its own."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

from tests.pages.page_project import ON_SQLITE, ROOT, make_project, run_there, shell

PAGE = (ROOT / "docs" / "groups.md").read_text()
MODELS = """
from django.db import models


class Account(models.Model):
    name = models.TextField(unique=True)
    events = models.JSONField(default=list)
"""
CONSUMERS = """
import time

from django_dbqueue import consumer
from django_dbqueue.models import Group


@consumer("reports")
@consumer("mail")
def work(message):
    print(f"begin {message.group}\\n", end="", flush=True)
    time.sleep(0.05)
    print(f"end {message.group}\\n", end="", flush=True)


@consumer("api")
def call(message):
    work(message)
    print(f"reserved {Group.objects.get().started}\\n", end="", flush=True)
"""

pytestmark = ON_SQLITE


def blocks(heading: str) -> list[str]:
    """The Python of a section of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def project(directory: Path, *, consumers: str = CONSUMERS, configured: str = "") -> None:
    make_project(directory, "sync", {"models": MODELS, "queue_consumers": consumers}, configured=configured)


def send(directory: Path, queue: str, **how_many: int) -> None:
    sent = [group.replace("_", "-") for group, number in how_many.items() for _ in range(number)]
    shell(
        directory,
        "from django_dbqueue import Envelope as E\nfrom django_dbqueue.models import Message as M\n"
        f"M.objects.enqueue_many([E(0, group=None if g == 'none' else g) for g in {sent!r}], queue={queue!r})",
    )


def most_at_once(output: str, group: str) -> int:
    running = most = 0
    for what in re.findall(rf"^(begin|end) {group}$", output, re.MULTILINE):
        running += 1 if what == "begin" else -1
        most = max(most, running)
    assert running == 0
    return most


def begun(output: str) -> list[str]:
    return re.findall(r"^begin (.+)$", output, re.MULTILINE)


def test_a_customers_events_are_applied_in_order(tmp_path: Path) -> None:
    consumers, sending = blocks("A customer's events in order")
    project(tmp_path, consumers=consumers)
    shell(tmp_path, sending)
    assert "4 done, 0 failed" in run_there(tmp_path, "run_queue_worker", "--drain", "--threads", "8")
    listing = "print(json.dumps(dict(Account.objects.values_list('name', 'events'))))"
    output = shell(tmp_path, f"import json\nfrom sync.models import Account\n{listing}")
    assert json.loads(output) == {"customer-17": ["created", "renamed", "deleted"], "customer-42": ["created"]}


def test_each_tenant_has_four_at_once_unless_it_has_a_limit_of_its_own(tmp_path: Path) -> None:
    configured, operating = blocks("Four at once for each tenant")
    project(tmp_path, configured=configured)
    shell(tmp_path, operating)
    send(tmp_path, "reports", tenant_1=24, tenant_17=5, tenant_42=1)
    output = run_there(tmp_path, "run_queue_worker", "--drain", "--threads", "12")
    assert "30 done, 0 failed" in output
    assert [most_at_once(output, f"tenant-{number}") for number in (1, 17)] == [4, 1]


def test_calls_of_an_api_start_a_tenth_of_a_second_apart_and_five_at_once(tmp_path: Path) -> None:
    [configured] = blocks("Ten a second to an API")
    project(tmp_path, configured=configured)
    send(tmp_path, "api", none=12)
    output = run_there(tmp_path, "run_queue_worker", "--max-messages", "12", "--threads", "8")
    assert begun(output) == ["*"] * 12
    assert most_at_once(output, r"\*") <= 5
    reserved = sorted({int(moment) for moment in re.findall(r"^reserved (\d+)$", output, re.MULTILINE)})
    assert len(reserved) > 2
    assert min(after - before for before, after in itertools.pairwise(reserved)) >= 100_000


def test_a_tenant_with_much_to_do_uses_what_is_idle_and_lets_others_through(tmp_path: Path) -> None:
    [configured] = blocks("Fair share")
    project(tmp_path, configured=configured)
    send(tmp_path, "mail", noisy=120, quiet=1)
    output = run_there(tmp_path, "run_queue_worker", "--drain", "--threads", "24")
    assert "121 done, 0 failed" in output
    assert 2 < most_at_once(output, "noisy") <= 16
    assert begun(output).index("quiet") <= 16
