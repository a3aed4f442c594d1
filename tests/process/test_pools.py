"""Where the project has Django's pool of connections, workers and guardians do without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from django_dbqueue.models import Message, Queue
from tests.factories import QUEUE, stuck
from tests.process.conftest import wait_until
from tests.process.sessions import end_sessions, sessions

pytestmark = pytest.mark.django_db(transaction=True)

POOLED = {"DJANGO_SETTINGS_MODULE": "tests.process.pooled_settings"}

if settings.TEST_DATABASE == "postgres":

    def test_children_of_a_pooled_project_share_no_socket(start_worker: Callable[..., Any]) -> None:
        """A pool that lived through the fork would give two children the same one."""
        Message.objects.enqueue_many([{"do": "exactly once"}] * 100, queue="test")
        worker = start_worker("--drain", "--processes", "3", "--threads", "3", **POOLED)
        assert worker.ended() == 0, worker.output
        assert "100 done, 0 failed" in worker.output
        assert Queue.objects.count() == 100
        assert set(Message.objects.done("test").values_list("read_count", flat=True)) == {1}

    def test_a_guardian_that_loses_its_session_again_and_again_empties_no_pool(
        start_guardian: Callable[..., Any],
    ) -> None:
        guardian = start_guardian("--watch", **POOLED)
        guardian.wait_for_output("Watching")
        for times in range(1, 7):
            end_sessions(wait_until(sessions, "its session"))
            wait_until(lambda n=times: guardian.output.count("The database answers again.") == n, "the next session")
        message = stuck(queue=QUEUE)
        guardian.wait_for_output(f"rescued (lease over): {message.pk}")
