"""The runner of a stream and what its data source is told, without Spark's JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from django_dbqueue.exceptions import InvalidMessage, InvalidPipeline
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import Stream, StreamClaim
from django_dbqueue.spark import stream_run
from django_dbqueue.spark.consuming import ClaimStreamReader, reader_of
from django_dbqueue.spark.schemas import MESSAGES
from django_dbqueue.spark.stream_run import StreamRun
from tests.factories import QUEUE, MessageFactory
from tests.patience import patience
from tests.process.conftest import wait_until
from tests.streams.conftest import SPEC, letters

pytestmark = pytest.mark.django_db(transaction=True)
LIMIT = ReadMaxRows(10)


@pytest.fixture
def options(transactional_db: None, tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "credentials.json"
    file.write_text(credentials_of("default").to_json())
    return {"credentials_file": str(file), "queue": QUEUE, "stream": "s"}


@pytest.fixture
def reader(options: dict[str, str]) -> Iterator[ClaimStreamReader]:
    made = reader_of(options, MESSAGES.schema)
    assert isinstance(made, ClaimStreamReader)
    yield made
    made.stop()


def ids_of(reader: ClaimStreamReader, start: int, end: int) -> list[int]:
    """What the tasks of a batch read, each with its own copy of the reader, as Spark has it."""
    found: list[int] = []
    for partition in reader.partitions({"claim": start}, {"claim": end}):
        task, piece = pickle.loads(pickle.dumps((reader, partition)))
        for batch in task.read(piece):
            found += batch.column("id").to_pylist()
    return found


def test_spark_s_questions_in_spark_s_order(reader: ClaimStreamReader) -> None:
    made = [message.pk for message in MessageFactory.create_batch(15)]
    reader.prepareForTriggerAvailableNow()
    assert reader.getDefaultReadLimit() == ReadMaxRows(20_000)
    assert reader.initialOffset() == {"claim": 0}
    assert reader.latestOffset({"claim": 0}, LIMIT) == {"claim": 1}
    assert reader.initialOffset() == {"claim": 0}
    assert reader.latestOffset({"claim": 0}, LIMIT) == {"claim": 1}
    assert ids_of(reader, 0, 1) == made[:10]
    assert reader.latestOffset({"claim": 1}, LIMIT) == {"claim": 2}
    assert letters() == ["y"] * 10 + ["run"] * 5
    reader.commit({"claim": 1})
    assert ids_of(reader, 1, 2) == made[10:]
    assert reader.latestOffset({"claim": 2}, LIMIT) == {"claim": 2}
    assert letters() == ["y"] * 15


def test_an_empty_queue_is_polled_less_and_less_often(
    reader: ClaimStreamReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = count(1_000.0, 0.005)
    now = [next(moments)]
    monkeypatch.setattr(stream_run, "time", SimpleNamespace(monotonic=lambda: now[0]))
    times: list[float] = []
    monkeypatch.setattr(StreamRun, "_next", lambda *_: times.append(now[0]))
    while len(times) < 10:
        assert reader.latestOffset({"claim": 0}, LIMIT) == {"claim": 0}
        now[0] = next(moments)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0], abs=0.006)


def test_a_reader_is_pickled_without_its_run(reader: ClaimStreamReader) -> None:
    reader.latestOffset({"claim": 0}, LIMIT)
    assert pickle.loads(pickle.dumps(reader))._run is None
    reader.stop()
    stream = Stream.objects.get()
    assert (stream.run, stream.conn_id, stream.runner) == (None, None, "")


def test_the_heartbeat_moves_the_lease_on(options: dict[str, str]) -> None:
    MessageFactory()
    reader = reader_of({**options, "lease": "3"}, MESSAGES.schema)
    try:
        reader.latestOffset({"claim": 0}, LIMIT)
        first = StreamClaim.objects.get().lease_until
        wait_until(lambda: StreamClaim.objects.get().lease_until > first, "a beat")
    finally:
        reader.stop()


def test_all_that_is_available_is_not_claimed_at_once(reader: ClaimStreamReader) -> None:
    MessageFactory()
    with pytest.raises(InvalidPipeline, match="availableNow=True"):
        reader.latestOffset({"claim": 0}, ReadAllAvailable())
    assert letters() == ["n"]


@pytest.fixture
def waiting(options: dict[str, str]) -> Iterator[ClaimStreamReader]:
    """Waits for three messages, for as long as it may."""
    made = reader_of({**options, "minMessagesPerTrigger": "3", "maxTriggerDelay": str(7 * 86_400)}, MESSAGES.schema)
    assert isinstance(made, ClaimStreamReader)
    yield made
    made.stop()


def offset_after(reader: ClaimStreamReader, start: int) -> int:
    """Ask until there is another offset."""
    wait_until(lambda: reader.latestOffset({"claim": start}, LIMIT) != {"claim": start}, "a claim")
    return reader.latestOffset({"claim": start}, LIMIT)["claim"]


def test_too_few_messages_wait_for_more(waiting: ClaimStreamReader, monkeypatch: pytest.MonkeyPatch) -> None:
    MessageFactory.create_batch(2)
    MessageFactory(queue="another")
    polls: list[int] = []
    real = StreamRun._next
    monkeypatch.setattr(StreamRun, "_next", lambda *args: (polls.append(1), real(*args))[1])

    def polled_often() -> bool:
        assert waiting.latestOffset({"claim": 0}, LIMIT) == {"claim": 0}
        return len(polls) > 3

    wait_until(polled_often, "some looks at the queue")
    assert letters() == ["n"] * 3
    MessageFactory(priority=5)
    assert offset_after(waiting, 0) == 1
    assert StreamClaim.objects.get().messages == 3


def test_a_claim_of_a_run_before_waits_for_nothing(waiting: ClaimStreamReader, options: dict[str, str]) -> None:
    MessageFactory.create_batch(2)
    before = reader_of(options, MESSAGES.schema)
    assert before.latestOffset({"claim": 0}, LIMIT) == {"claim": 1}  # type: ignore[call-arg]
    before.stop()
    assert waiting.latestOffset({"claim": 0}, LIMIT) == {"claim": 1}


def test_available_now_takes_what_is_there(waiting: ClaimStreamReader) -> None:
    MessageFactory.create_batch(2)
    waiting.prepareForTriggerAvailableNow()
    assert waiting.latestOffset({"claim": 0}, LIMIT) == {"claim": 1}
    assert waiting.latestOffset({"claim": 1}, LIMIT) == {"claim": 1}
    assert letters() == ["y"] * 2


def test_a_small_batch_goes_when_it_has_waited_for_long(options: dict[str, str]) -> None:
    limits = {"minMessagesPerTrigger": "3", "maxTriggerDelay": "1"}
    reader = reader_of({**options, **limits}, MESSAGES.schema)
    assert isinstance(reader, ClaimStreamReader)
    try:
        MessageFactory()
        assert offset_after(reader, 0) == 1
        assert StreamClaim.objects.get().messages == 1
    finally:
        reader.stop()


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({"queue": None}, "'queue' is missing"),
        ({"stream": None}, "'stream' is missing"),
        ({"stream": "two words"}, "'two words' is not a valid stream name"),
        ({"queue": "två"}, "'två' is not a queue name"),
        ({"lease": "2"}, "'lease' is '2'; it must be a whole number from 3"),
        ({"maxMessagesPerTrigger": "0"}, "'maxMessagesPerTrigger' is '0'"),
        ({"maxRowsPerBatch": "5"}, "no option 'maxrowsperbatch' here.* maxMessagesPerTrigger"),
        ({"minMessagesPerTrigger": "many"}, "'minMessagesPerTrigger' is 'many'"),
        ({"minMessagesPerTrigger": "30000"}, "is 30,000, but a batch has 20,000 messages at most: set 'maxM"),
        ({"minMessagesPerTrigger": "2", "maxTriggerDelay": "0"}, "'maxTriggerDelay' is '0'"),
        ({"maxTriggerDelay": "5"}, "waits for 'minMessagesPerTrigger', which is not set"),
        ({"max_reads": "-1"}, "'max_reads' is '-1'"),
        ({"on_expired": "drop"}, "'on_expired' is 'drop'; it can be hold, requeue"),
        ({"on_expried": "hold"}, "Did you mean 'on_expired'"),
        ({"status": "done"}, "There is no option 'status' here"),
        ({"password": "x"}, "'password' would appear"),
    ],
)
def test_an_option_that_can_not_be_is_refused_by_name(options: dict[str, str], bad: dict[str, Any], what: str) -> None:
    chosen = {name: value for name, value in {**options, **bad}.items() if value is not None}
    with pytest.raises((InvalidPipeline, InvalidMessage), match=what):
        reader_of(chosen, MESSAGES.schema)
    assert not Stream.objects.exists()


if settings.TEST_DATABASE == "mariadb":
    from tests.process.private_servers import django, prepared
    from tests.servers.mariadb import MariaDB

    @pytest.mark.slow
    def test_a_runner_outlives_crashes_of_the_server_at_a_claim_a_plan_and_an_ack(
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with MariaDB.running() as server:
            environment = prepared(server)
            django(environment, "Message.objects.enqueue_many(range(30), queue='tests')")
            address = (
                "from django_dbqueue.management.spark_settings import credentials_of; print(credentials_of('default')"
            )
            text = django(environment, f"{address}.to_json())")
            run = StreamRun(stream_run.Credentials.parse(text, where="the test"), SPEC, outage=patience(60))

            def crash() -> None:
                server.kill()
                server.start()

            crash()
            assert run.advance(0, 10) == 1
            crash()
            [(_, ids)] = run.planned(0, 1)
            assert ids == ((1, 10),)
            crash()
            run.ack(1)
            assert run.advance(1, 20) == 2
            crash()
            assert run.advance(2, 20) == 2
            done = "print(Message.objects.done('tests').count(), Message.objects.exclude(status='y').count())"
            assert django(environment, done) == "30 0"
            run.close()
