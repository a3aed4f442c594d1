"""The example project's flights on Spark say the same as without it, and come out of their history again."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.models import Message, QueueStatistic
from example_project.flights.departures import DEPARTURES_QUEUE, read_departures
from example_project.flights.models import AirportDelay, CarrierDelay, Ingest
from tests.flights.departures import LATE, STORY, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.django_db(transaction=True)


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("flights_on_spark", *arguments, stdout=out, no_color=True)
    return out.getvalue()


@pytest.mark.spark
@pytest.mark.once
def test_the_flights_come_in_go_into_the_lake_and_come_again(spark: SparkSession, tmp_path: Path) -> None:
    midnight = LATE.replace("517,515", "2400,2359").replace("N14228", "NA")
    story = write_file(tmp_path / "story.csv", *STORY, midnight)

    text = run("ingest", "--file", str(story))

    expected = {departure.key: departure.payload for departure in read_departures(story)}
    assert {message.key: message.payload for message in Message.objects.all()} == expected
    assert text.count("is published: 6 messages created") == text.count("was published before: nothing was added") == 1
    assert (AirportDelay.objects.count(), CarrierDelay.objects.count(), Ingest.objects.get().created) == (2, 4, 6)

    done = Message.objects.claim(6, queue=DEPARTURES_QUEUE)
    [dead] = [message for message in done if message.payload["departed"] is None]
    dead.reject("cancelled: no departure time")
    Message.objects.ack([message for message in done if message is not dead])
    text = run("history", "--lake", str(tmp_path / "lake"))

    assert not Message.objects.done(DEPARTURES_QUEUE).exists()
    [again] = Message.objects.ready(DEPARTURES_QUEUE)
    assert again.payload == dead.payload
    assert again.headers["dbqueue.replayed_from"]["message"] == dead.pk
    [cell] = QueueStatistic.objects.all()
    assert (cell.messages, cell.dead) == (6, 1)
    assert f"{cell.hour:%Y-%m-%d %H:%M} departures" in text
    assert "█" * 40 + " 6" in text


def test_without_a_lake_or_a_file_nothing_begins(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="history needs --lake"):
        run("history")
    with pytest.raises(CommandError, match="There is no file"):
        run("ingest", "--file", str(tmp_path / "none.csv"))
