"""Replays: what the lake holds comes into the queue again, each message once for each replay."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.models import Message
from django_dbqueue.models.staged import PublishedJob, StagedMessage
from django_dbqueue.spark.jobs import replay
from django_dbqueue.spark.jobs.config import ReplayConfig
from django_dbqueue.spark.jobs.replay import ReplayResult, like_of
from tests.spark.histories import archived, ended, exported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)
NEXT_DAY = NINE + timedelta(days=1)


@pytest.fixture
def lake(spark: SparkSession, credentials_file: str, tmp_path: Path) -> str:
    """Five done messages, a dead and a retried one, of two queues and two days."""
    archived(
        *(ended(NINE, key=f"order-{number}", body=f'{{"n": {number}}}') for number in range(5)),
        ended(NEXT_DAY, key="order_x", outcome="dead", reads=3, body='{"n": 5}'),
        ended(NEXT_DAY, queue="reports", reads=2, priority=7, max_reads=9, body='{"n": 6}'),
    )
    return exported(spark, credentials_file, tmp_path / "lake")


def replayed(spark: SparkSession, credentials_file: str, lake: str, **fields: Any) -> ReplayResult:
    return replay.run(spark, ReplayConfig(credentials_file=credentials_file, lake=lake, **fields))


def numbers() -> list[int]:
    return sorted(message.payload["n"] for message in Message.objects.all())


def test_everything_comes_again_as_it_was_and_has_where_from(
    spark: SparkSession, credentials_file: str, lake: str
) -> None:
    result = replayed(spark, credentials_file, lake, job_id="again")

    assert result.published is not None
    assert (result.published.created, numbers()) == (7, list(range(7)))
    [message] = Message.objects.ready("reports")
    assert (message.priority, message.max_reads, message.key) == (7, 9, None)
    origin = message.headers["dbqueue.replayed_from"]
    assert (origin["job"], origin["queue"]) == ("again", "reports")
    assert {type(origin["message"]), type(origin["archive"])} == {int}
    assert Message.objects.get_by_key("emails", "order-3").payload == {"n": 3}


def test_bodies_come_out_byte_for_byte_the_unreadable_among_them(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    bodies = [
        ('{ "b" : 1.50,\n"a": "\\u00e9" }', "json"),
        ("naïve ☃ 𝄞\r\n\ttext ", "text"),
        ("", "text"),
        ("aGk=", "bytes"),
        ("{broken", "json"),
        ("<a/>", "xml"),
    ]
    headers = ['{"trace": "☃"}', None, "{}", "no json", "[1]", '{"dbqueue.replayed_from": 1}']
    archived(
        *(
            ended(NINE, body=body, content_type=kind, headers_text=text)
            for (body, kind), text in zip(bodies, headers, strict=True)
        )
    )
    lake = exported(spark, credentials_file, tmp_path / "lake")

    replayed(spark, credentials_file, lake)

    again = {(message.body, message.content_type): message.headers for message in Message.objects.all()}
    assert set(again) == set(bodies)
    assert again[bodies[0]]["trace"] == "☃"
    assert again[bodies[3]]["dbqueue.unreadable_headers"] == "no json"
    assert again[bodies[4]]["dbqueue.unreadable_headers"] == "[1]"
    assert all(isinstance(each["dbqueue.replayed_from"], dict) for each in again.values())


def test_the_same_replay_twice_adds_nothing_also_when_its_messages_are_done_and_gone(
    spark: SparkSession, credentials_file: str, lake: str
) -> None:
    assert replayed(spark, credentials_file, lake, job_id="once").published.created == 7  # type: ignore[union-attr]
    Message.objects.ack(Message.objects.claim(7, queue="emails"))

    result = replayed(spark, credentials_file, lake, job_id="once")

    assert "published before: nothing was added" in str(result)
    assert Message.objects.count() == 7
    assert replayed(spark, credentials_file, lake, job_id="twice").published.created == 7  # type: ignore[union-attr]


def test_a_rate_spreads_what_is_due(spark: SparkSession, credentials_file: str, lake: str) -> None:
    replayed(spark, credentials_file, lake, rate=0.01)

    # One statement each publishes the rows of a task, and counts from its own moment
    waits = sorted((message.due_at - message.created_at).total_seconds() for message in Message.objects.all())
    assert waits == pytest.approx([100.0 * place for place in range(7)], abs=0.002)
    [first] = Message.objects.ready("emails")
    assert first.payload == {"n": 0}


def test_a_key_that_is_in_use_is_left_out(spark: SparkSession, credentials_file: str, lake: str) -> None:
    Message.objects.enqueue({"n": 99}, queue="emails", key="order-1")

    result = replayed(spark, credentials_file, lake)

    assert result.published is not None
    assert (result.published.created, result.published.ignored) == (6, 1)
    assert numbers() == [0, 2, 3, 4, 5, 6, 99]


def test_days_that_are_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(InvalidPipeline, match="--from 2026-03-02 is after --to 2026-03-01"):
        ReplayConfig(lake="lake", from_=date(2026, 3, 2), to=date(2026, 3, 1))


def test_only_the_pattern_s_own_letters_are_special() -> None:
    assert like_of("100%_\\*?") == "100\\%\\_\\\\%_"


@pytest.mark.once
def test_a_replay_without_a_name_has_that_of_its_selection(
    spark: SparkSession, credentials_file: str, lake: str
) -> None:
    first = replayed(spark, credentials_file, lake, only="dead")

    assert first.job_id in str(first)
    assert replayed(spark, credentials_file, lake, only="dead", rate=5.0).job_id == first.job_id
    assert numbers() == [5]
    assert replayed(spark, credentials_file, lake, only="dead", dry_run=True, limit=1).job_id != first.job_id


@pytest.mark.once
def test_a_dry_run_counts_per_queue_and_day_and_adds_nothing(
    spark: SparkSession, credentials_file: str, lake: str
) -> None:
    result = replayed(spark, credentials_file, lake, dry_run=True)

    assert result.counts == (("emails", "2026-03-01", 5), ("emails", "2026-03-02", 1), ("reports", "2026-03-02", 1))
    assert "would enqueue 7 messages" in str(result)
    assert not Message.objects.exists()
    assert not PublishedJob.objects.exists()
    assert not StagedMessage.objects.exists()


@pytest.mark.once
def test_to_another_queue_without_keys(spark: SparkSession, credentials_file: str, lake: str) -> None:
    replayed(spark, credentials_file, lake, to_queue="sink", keys="drop")

    assert {(message.queue, message.key) for message in Message.objects.all()} == {("sink", None)}
    assert {message.headers["dbqueue.replayed_from"]["queue"] for message in Message.objects.all()} == {
        "emails",
        "reports",
    }


@pytest.mark.once
def test_where_nothing_was_exported_there_is_no_lake(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidPipeline, match="no lake"):
        replayed(spark, credentials_file, str(tmp_path / "nowhere"))


@pytest.mark.once
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"queue": ("reports",)}, [6]),
        ({"queue": ("reports", "emails", "none")}, [0, 1, 2, 3, 4, 5, 6]),
        ({"from_": date(2026, 3, 2)}, [5, 6]),
        ({"to": date(2026, 3, 1)}, [0, 1, 2, 3, 4]),
        ({"from_": date(2026, 3, 3)}, []),
        ({"key": "order-*"}, [0, 1, 2, 3, 4]),
        ({"key": "order_?"}, [5]),
        ({"key": "ORDER-1"}, []),
        ({"only": "dead"}, [5]),
        ({"only": "failed"}, [5, 6]),
        ({"where": "key IN ('order-1', 'order-2') OR priority > 5"}, [1, 2, 6]),
        ({"limit": 3}, [0, 1, 2]),
        ({"limit": 2, "only": "failed", "rate": 1.0}, [5, 6]),
    ],
)
def test_a_selection_takes_what_it_names(
    spark: SparkSession, credentials_file: str, lake: str, fields: dict[str, Any], expected: list[int]
) -> None:
    replayed(spark, credentials_file, lake, **fields)

    assert numbers() == expected


@pytest.mark.once
@pytest.mark.parametrize("where", ["no_such_column = 1", "key = ", "priority", "count(*) > 1", "1; DROP TABLE x"])
def test_a_condition_that_is_none_is_refused_by_its_own_words(
    spark: SparkSession, credentials_file: str, lake: str, where: str
) -> None:
    with pytest.raises(InvalidPipeline, match=r"--where .*not a condition on the lake's columns"):
        replayed(spark, credentials_file, lake, where=where)
    assert not Message.objects.exists()


if settings.TEST_DATABASE in {"mariadb", "mysql"}:
    by_night = pytest.mark.nightly if settings.TEST_DATABASE == "mysql" else ()

    @pytest.mark.parametrize(
        "point",
        [
            pytest.param("staged", marks=pytest.mark.nightly),
            pytest.param("publishing", marks=by_night),
            pytest.param("published", marks=pytest.mark.nightly),
        ],
    )
    def test_a_replay_that_is_killed_and_repeated_adds_each_message_once(
        spark: SparkSession, credentials_file: str, lake: str, worker_env: dict[str, str], point: str
    ) -> None:
        driver = [sys.executable, "-m", "tests.spark.drivers.killed_replay", credentials_file, lake, "killed", point]
        killed = subprocess.run(
            driver, env=worker_env, start_new_session=True, capture_output=True, text=True, check=False
        )
        assert killed.returncode == -9, killed.stderr
        assert Message.objects.count() == (7 if point == "published" else 0)
        handled = Message.objects.claim(3, queue="emails")
        Message.objects.ack(handled)

        replayed(spark, credentials_file, lake, job_id="killed")

        assert numbers() == list(range(7))
        assert Message.objects.done("emails").count() == len(handled)
