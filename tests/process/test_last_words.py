"""What a worker has logged reaches its reader however the process ends, and errors reach ADMINS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import Message

pytestmark = pytest.mark.django_db(transaction=True)

SETTINGS = "tests.process.last_words_settings"


@pytest.mark.parametrize("queue", ["test", "timed"])
def test_lines_that_a_handler_keeps_in_memory_are_written_however_the_child_ends(
    start_worker: Callable[..., Any], queue: str
) -> None:
    """After a timeout a child ends by ``os._exit`` of its own, otherwise by that of the fork."""
    failing = Message.objects.enqueue({"do": "fail", "text": "broken"}, queue="timed", max_reads=1)
    if queue == "timed":
        Message.objects.enqueue({"do": "sleep", "seconds": 60}, queue=queue, max_reads=1)
    worker = start_worker(
        "--drain", "--grace", "1", "--threads", "1", "--processes", "1", DJANGO_SETTINGS_MODULE=SETTINGS
    )
    assert worker.ended() == 0, worker.output
    assert worker.output.count(f"ERROR message {failing.pk} of timed is dead at attempt 1: ValueError: broken") == 1
    assert "Traceback (most recent call last):" in worker.output


def test_a_death_is_mailed_to_admins_with_its_traceback(start_worker: Callable[..., Any], tmp_path: Path) -> None:
    mails = tmp_path / "mails"
    retried = Message.objects.enqueue({"do": "fail", "text": "passing", "times": 1}, queue="test")
    dying = Message.objects.enqueue({"do": "fail", "text": "broken", "secret": "s3cr3t"}, queue="test", max_reads=1)
    worker = start_worker("--drain", DJANGO_SETTINGS_MODULE=SETTINGS, DBQUEUE_TEST_MAILS=str(mails))
    assert worker.ended() == 0, worker.output
    assert Message.objects.get(pk=retried.pk).status == "y"
    [mail] = [path.read_text() for path in mails.iterdir()]
    assert "To: ann@example.com" in mail
    assert f"message {dying.pk} of test is dead" in mail
    assert "deeds.py" in mail
    assert "raise ValueError" in mail
    assert "s3cr3t" not in mail
