"""The example project's story, in small: departures go through the queue, and the totals are those of the file."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.insight.series import SPANS, series
from django_dbqueue.models import ArchivedMessage, Edge, Message
from django_dbqueue.sessions.django_session import session_of
from example_project.flights.departures import (
    ALERTS_QUEUE,
    COUNTS_QUEUE,
    DEPARTURES_QUEUE,
    REPORTS_QUEUE,
)
from example_project.flights.ingest import ingest
from example_project.flights.management.commands import drain_flights
from example_project.flights.models import Aircraft, AirportDelay, AirportNotice, AirportReport
from example_project.flights.queue_consumers import record_departures
from example_project.settings import DBQUEUE
from tests.conftest import ROOT
from tests.factories import claim_one
from tests.flights.departures import LATE, write_file
from tests.patience import patience

transactional = pytest.mark.django_db(transaction=True)
DRAIN = [sys.executable, "-m", "django", "drain_flights"]


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
        timeout=patience(120),
    )


@transactional
def test_two_workers_drain_the_story_and_the_totals_are_those_of_the_file(
    story: Path, worker_env: dict[str, str]
) -> None:
    run("ingest_flights", "--file", str(story))
    run("ingest_flights", "--file", str(story))
    drain(worker_env)

    output = run("flights_report", "--file", str(story))
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.strip()}
    assert rows["queue"] == ["done", "retried", "dead", "ignored"]
    assert rows[DEPARTURES_QUEUE] == ["4", "0", "1", "5"]
    assert rows[ALERTS_QUEUE] == ["2", "1", "0", "-"]
    assert rows[COUNTS_QUEUE] == ["2", "0", "0", "-"]
    assert rows[REPORTS_QUEUE] == ["2", "2", "0", "-"]
    assert (
        "The totals equal those computed directly from the CSV file: 4 departures, 999 minutes late,"
        " 2 airports, 3 carriers, 2 delay notices, 1 cancelled." in output
    )
    assert "cancelled: no departure time" in Message.objects.dead(DEPARTURES_QUEUE).get().error
    assert (
        "2 flows, one for each airport's file, each with its report: delivered 4 times, and in a step the notice "
        "service was called 2 times, once for each." in output
    )


@transactional
def test_the_dashboard_shows_lines_when_the_demo_has_drained_its_queues(
    story: Path, worker_env: dict[str, str]
) -> None:
    run("ingest_flights", "--file", str(story))
    subprocess.run(DRAIN, env=worker_env, check=True, capture_output=True, timeout=patience(120))
    ended = Message.objects.done().count() + ArchivedMessage.objects.count() + Message.objects.dead().count()
    points = series(session_of("default"), SPANS["hour"])
    assert sum(point.messages for point in points) == ended >= 9
    assert sum(point.dead for point in points) == 1
    assert any(point.wait_p50 is not None and point.run_p95 is not None for point in points)


@transactional
def test_an_aircrafts_departures_are_handled_in_the_order_of_the_file(
    tmp_path: Path, worker_env: dict[str, str]
) -> None:
    def departure(number: int) -> str:
        return LATE.replace("1545", f"{number}").replace("N14228", f"N{number % 3}")

    story = write_file(tmp_path / "many.csv", *(departure(number) for number in range(1, 121)))
    run("ingest_flights", "--file", str(story))
    drain(worker_env | {"DBQUEUE_TEST_SETTINGS": json.dumps({"QUEUES": DBQUEUE["QUEUES"]})})
    output = run("flights_report", "--file", str(story))
    assert "3 aircraft, beside one another, and the departures of each in the order of the file." in output
    assert set(Aircraft.objects.values_list("departures", flat=True)) == {40}

    other = write_file(tmp_path / "other.csv", *(departure(number) for number in (4, *range(1, 4), *range(5, 121))))
    with pytest.raises(CommandError) as refused:
        run("flights_report", "--file", str(other))
    assert str(refused.value).splitlines()[1:] == [
        "  N1: its departures were not handled once each in the order of the file"
    ]


@transactional
def test_an_aircraft_that_departs_from_two_airports_is_handled_in_the_order_of_their_files(
    tmp_path: Path, worker_env: dict[str, str]
) -> None:
    def departure(number: int) -> str:
        return LATE.replace("1545", f"{number}").replace("EWR", "JFK" if number % 2 else "EWR")

    story = write_file(tmp_path / "two.csv", *map(departure, range(1, 9)))
    run("ingest_flights", "--file", str(story))
    drain(worker_env)
    assert "1 aircraft, beside one another" in run("flights_report", "--file", str(story))
    assert Aircraft.objects.get().departures == 8


@transactional
def test_the_report_names_what_differs(tmp_path: Path, worker_env: dict[str, str]) -> None:
    one = write_file(tmp_path / "one.csv", LATE)
    run("ingest_flights", "--file", str(one))
    drain(worker_env)
    run("flights_report", "--file", str(one))

    AirportDelay.objects.filter(airport="EWR").update(late_minutes=7)
    report = AirportReport.objects.get()
    AirportReport.objects.update(departures=2)
    AirportNotice.objects.create(airport="EWR", flow=report.flow)
    with pytest.raises(CommandError) as refused:
        run("flights_report", "--file", str(one))
    assert str(refused.value).splitlines() == [
        "The totals differ from those of the CSV file:",
        "  EWR: late_minutes is 7, but should be 2",
        "  EWR: its report has departures 2, but should have 1",
        f"  EWR, flow #{report.flow}: the notice service was called 2 times, but should be called once",
    ]


@transactional
def test_the_report_waits_for_the_drain(story: Path) -> None:
    ingest(story)
    with pytest.raises(CommandError, match="5 messages in departures are still ready"):
        run("flights_report", "--file", str(story))


@transactional
def test_a_reset_clears_the_totals_and_frees_the_queues_for_the_same_file(story: Path) -> None:
    ingest(story)
    message = claim_one(DEPARTURES_QUEUE)
    with message.transaction():
        record_departures([message])
    assert "9 messages went into the history" in run("reset_flights")
    assert not Message.objects.exists()
    assert ArchivedMessage.objects.count() == 9, "5 departures, and a count and a report for each of 2 airports"
    assert not Edge.objects.exists()
    assert not AirportDelay.objects.exists()
    assert not AirportReport.objects.exists()
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
    assert Message.objects.count() == 9
    assert AirportDelay.objects.exists()


@pytest.mark.once
@transactional
def test_a_log_gets_one_line_of_the_flows_when_they_have_ended(story: Path, worker_env: dict[str, str]) -> None:
    ingest(story)
    done = subprocess.run(DRAIN, env=worker_env, check=True, capture_output=True, text=True, timeout=patience(120))
    [line] = done.stdout.splitlines()
    assert line.endswith(": EWR 5 of 5 (1 dead); JFK 4 of 4.")


@pytest.mark.once
@transactional
def test_a_terminal_shows_a_bar_for_each_flow_and_not_the_workers_own(story: Path, worker_env: dict[str, str]) -> None:
    ingest(story)
    ours, theirs = pty.openpty()
    environment = worker_env | {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(DRAIN, env=environment, stdout=theirs, stderr=theirs) as drained:
        os.close(theirs)
        seen = b""
        with suppress(OSError):  # EIO: the other side is closed
            while some := os.read(ours, 10_000):
                seen += some
        os.close(ours)
    assert drained.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert re.search(r"EWR +[━╸╺]+ +5/5 +1 dead .*\r\nJFK +[━╸╺]+ +4/4 ", text)
    assert "draining" not in text


@pytest.mark.parametrize("is_terminal", [True, False])
@transactional
def test_a_worker_that_fails_fails_the_drain_and_is_heard(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    dies = "import sys; sys.exit('no such queue [bold]')"
    monkeypatch.setattr(drain_flights, "WORKER", (sys.executable, "-c", dies))
    monkeypatch.setenv("FORCE_COLOR" if is_terminal else "NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(CommandError, match="ended with exit code 1"):
        run("drain_flights")
    printed = capfd.readouterr()
    assert "no such queue [bold]" in (printed.out if is_terminal else printed.err)


def test_the_demo_refuses_an_unknown_option_with_its_usage() -> None:
    refused = subprocess.run([ROOT / "bin" / "demo", "--fulll"], capture_output=True, text=True, timeout=patience(30))
    assert refused.returncode == 2
    assert "unknown option: --fulll" in refused.stderr
    assert "usage: bin/demo" in refused.stderr
