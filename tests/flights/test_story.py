"""The example project's story, in small: departures go through the queue, and the totals are those of the file."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.models import ArchivedMessage, Message
from example_project.flights.departures import ALERTS_QUEUE, DEPARTURES_QUEUE
from example_project.flights.ingest import ingest
from example_project.flights.models import AirportDelay
from example_project.flights.queue_consumers import record_departure
from tests.conftest import ROOT
from tests.factories import claim_one
from tests.flights.departures import LATE, write_file

transactional = pytest.mark.django_db(transaction=True)


def run(command: str, *args: str) -> str:
    out = StringIO()
    call_command(command, *args, stdout=out, no_color=True)
    return out.getvalue()


def drain(environment: dict[str, str]) -> None:
    """Real workers, two of them, until both queues are empty."""
    subprocess.run(
        [sys.executable, "-m", "django", "run_queue_worker", "--processes", "2", "--drain"],
        env=environment,
        check=True,
        timeout=120,
    )


@transactional
def test_two_workers_drain_the_story_and_the_totals_are_those_of_the_file(
    story: Path, worker_env: dict[str, str]
) -> None:
    run("ingest_flights", "--file", str(story))
    run("ingest_flights", "--file", str(story))
    drain(worker_env)

    said = run("flights_report", "--file", str(story))
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.strip()}
    assert rows["queue"] == ["done", "retried", "dead", "ignored"]
    assert rows[DEPARTURES_QUEUE] == ["4", "0", "1", "5"]
    assert rows[ALERTS_QUEUE] == ["2", "1", "0", "-"]
    assert (
        "The totals equal those computed directly from the CSV file: 4 departures, 999 minutes late,"
        " 2 airports, 3 carriers, 2 delay notices, 1 cancelled." in said
    )
    assert "cancelled: no departure time" in Message.objects.dead(DEPARTURES_QUEUE).get().error


@transactional
def test_the_report_names_what_differs(tmp_path: Path) -> None:
    one = write_file(tmp_path / "one.csv", LATE)
    ingest(one)
    record_departure(claim_one(DEPARTURES_QUEUE))
    run("flights_report", "--file", str(one))

    AirportDelay.objects.filter(airport="EWR").update(late_minutes=7)
    with pytest.raises(CommandError) as refused:
        run("flights_report", "--file", str(one))
    assert str(refused.value).splitlines() == [
        "The totals differ from those of the CSV file:",
        "  EWR: late_minutes is 7, but should be 2",
    ]


@transactional
def test_the_report_waits_for_the_drain(story: Path) -> None:
    ingest(story)
    with pytest.raises(CommandError, match="5 messages in departures are still ready"):
        run("flights_report", "--file", str(story))


@transactional
def test_a_reset_clears_the_totals_and_frees_the_queues_for_the_same_file(story: Path) -> None:
    ingest(story)
    record_departure(claim_one(DEPARTURES_QUEUE))
    assert "5 messages went into the history" in run("reset_flights")
    assert not Message.objects.exists()
    assert ArchivedMessage.objects.count() == 5
    assert not AirportDelay.objects.exists()
    assert ingest(story).created == 5


@transactional
def test_a_reset_leaves_messages_alone_that_no_ingest_enqueued() -> None:
    Message.objects.enqueue({"not": "ours"}, queue=DEPARTURES_QUEUE)
    with pytest.raises(CommandError, match="use another database"):
        run("reset_flights")
    assert Message.objects.ready(DEPARTURES_QUEUE).count() == 1


@transactional
def test_a_reset_waits_for_a_busy_worker(story: Path) -> None:
    ingest(story)
    claim_one(DEPARTURES_QUEUE)
    with pytest.raises(CommandError, match="A worker is busy with departures"):
        run("reset_flights")
    assert Message.objects.count() == 5
    assert AirportDelay.objects.exists()


def test_the_demo_refuses_an_unknown_option_with_its_usage() -> None:
    refused = subprocess.run([ROOT / "bin" / "demo", "--fulll"], capture_output=True, text=True, timeout=30)
    assert refused.returncode == 2
    assert "unknown option: --fulll" in refused.stderr
    assert "usage: bin/demo" in refused.stderr
