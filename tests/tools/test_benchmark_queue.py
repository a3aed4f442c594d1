"""The queue's benchmark runs, and what it says follows from what was handled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection

from benchmarks.queue import probe, rivals
from benchmarks.queue.bench import QUEUE, QUICK, Bench
from benchmarks.queue.charts import chart
from benchmarks.queue.floors import floor
from benchmarks.queue.page import Page
from benchmarks.queue.peers.conditions import BODY, LOGGING
from benchmarks.queue.peers.peer import Drain
from benchmarks.queue.peers.roster import PEERS
from benchmarks.queue.probe import Hit, Probe, hit, rate
from benchmarks.queue.processes import ChildFailed, together
from django_dbqueue.models import Message
from tests.patience import patience

ROOT = Path(__file__).resolve().parents[2]


def test_a_rate_counts_from_the_last_process_s_first_message_to_the_last_ack() -> None:
    early = [Hit(number, 10 + number / 10, pid=1) for number in range(20)]
    both = [Hit(20 + number, 12 + number / 10, pid=1 + number % 2) for number in range(80)]
    assert rate([*early, *both], end=21.0) == pytest.approx(78 / (21.0 - 12.1))


def test_where_a_process_comes_too_late_the_rate_counts_from_the_first_message() -> None:
    hits = [*(Hit(number, 10 + number / 10, pid=1) for number in range(100)), Hit(100, 20.0, pid=2)]
    assert rate(hits, end=20.0) == pytest.approx(100 / 10)


def test_a_message_that_came_twice_or_never_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Probe(tmp_path / "probe")
    monkeypatch.setenv(probe.PATH, str(seen.path))
    for number in (0, 1, 2):
        hit(number)
    seen.check_each_once(3)
    hit(1)
    with pytest.raises(AssertionError, match="1 of 5 messages were handled twice, 2 were lost"):
        seen.check_each_once(5)


def test_messages_that_no_longer_come_are_not_waited_for(tmp_path: Path) -> None:
    def still_alive() -> None:
        raise AssertionError("the worker ended")

    with pytest.raises(AssertionError, match="the worker ended"):
        Probe(tmp_path / "probe").wait_for(1, still_alive)


def test_processes_begin_together_and_the_failure_of_one_ends_all() -> None:
    assert together(2, _double, 21) == [42, 42]
    with pytest.raises(ChildFailed, match="ZeroDivisionError"):
        together(2, _fail)


def _double(begin: Any, number: int) -> int:
    begin()
    return 2 * number


def _fail(begin: Any) -> float:
    begin()
    return 1 / 0


@pytest.fixture
def bench(transactional_db: None, database: str, tmp_path: Path) -> Bench:
    settings = connection.settings_dict
    if database == "sqlite":
        url = f"sqlite:///{settings['NAME']}"
    else:
        url = urlsplit(os.environ["DBQUEUE_TEST_URL"])._replace(path=f"/{settings['NAME']}").geturl()
    return Bench(database, url, QUICK, True, tmp_path, print)


@pytest.mark.parametrize("batch", [1, 40])
@pytest.mark.parametrize("shared", [False, True])
def test_the_bare_loop_does_each_message_once_and_in_order(bench: Bench, batch: int, shared: bool) -> None:
    bench.fill(100)
    handled: list[int] = []
    with floor(bench.url, QUEUE) as raw:
        raw.drain(batch, together=shared, handle=lambda payload: handled.append(payload["n"]))
    assert handled == list(range(100))
    done = Message.objects.done(QUEUE).values_list("read_count", "live", "error")
    assert list(done) == [(1, None, None)] * 100


def test_the_bare_inserts_store_what_enqueue_stores(bench: Bench) -> None:
    payloads = [{"n": number} for number in range(5)]
    with floor(bench.url, QUEUE) as raw:
        raw.insert(payloads[0])
        raw.insert_many(payloads[1:])
    Message.objects.enqueue_many(payloads, queue="ours")
    columns = ("status", "key", "priority", "read_count", "content_type", "headers_text", "max_reads", "lease_seconds")
    [bare, ours] = [Message.objects.ready(queue).order_by("id") for queue in (QUEUE, "ours")]
    assert [each.payload for each in bare] == payloads
    assert list(bare.values_list(*columns)) == list(ours.values_list(*columns))


def test_a_table_is_emptied_and_filled_again(bench: Bench) -> None:
    bench.fill(2_345)
    bench.empty()
    assert not Message.objects.exists()
    bench.fill(1_234)
    numbers = [each.payload["n"] for each in Message.objects.ready(QUEUE).order_by("id")]
    assert numbers == list(range(1_234))


def _run(figure: float, *, quick: bool = False) -> dict[str, Any]:
    target = {"contestant": "worker", "rival": "raw <loop>", "at_least": 0.6, "at_most": None, "or_at_least": None}
    figures = [
        {"contestant": "worker", "rows": 1, "median": figure, "rounds": [figure, figure + 5]},
        {"contestant": "raw <loop>", "rows": 1, "median": 100.0, "rounds": [90.0, 110.0]},
    ]
    verdict = {
        "target": target,
        "figure": figure,
        "rival": "raw <loop>",
        "judged": figure / 100,
        "met": figure >= 60,
    }
    contest = {"contest": "drain, 1", "unit": "messages/s", "figures": figures, "verdicts": [verdict]}
    about = {"quick": quick, "tmpfs": True, "cores": 2, "python": "3.11.7", "django": "5.2", "date": "2026-11-28"}
    others = {"peers": {"parrot": "1.2, Python 3.13.1"}, "missing": {"owl": "owl needs Python 3.14."}}
    return {**about, "databases": {"mariadb": {"version": "10.11.9-MariaDB", "contests": [contest], **others}}}


def test_the_page_has_medians_spreads_and_verdicts_and_a_later_run_replaces_an_earlier_one(tmp_path: Path) -> None:
    Page([_run(20.0), _run(70.0)]).write(tmp_path / "benchmarks.md")
    text = (tmp_path / "benchmarks.md").read_text()
    assert "| worker | 70.0 (70.0 to 75.0) |" in text
    assert "| MariaDB | worker | 0.70 × raw <loop> | ≥ 0.6 | met |" in text
    assert "20.0" not in text
    assert "| MariaDB 10.11.9-MariaDB | 3.11.7, 5.2 | 2 | 2026-11-28 |" in text
    assert "| parrot | 1.2, Python 3.13.1 |" in text
    assert "*owl* took no part: owl needs Python 3.14." in text
    assert (tmp_path / "images/benchmarks/drain__1.svg").read_text().count("<rect") == 2


def test_the_page_of_a_quick_run_shows_it() -> None:
    assert "--quick" in Page([_run(20.0, quick=True)]).text
    assert "**not met**" in Page([_run(20.0)]).text


def test_a_chart_names_and_numbers_every_bar() -> None:
    figures = _run(70.0)["databases"]["mariadb"]["contests"][0]["figures"]
    svg = chart("drain", "messages/s", {"MariaDB": figures})
    assert "raw &lt;loop&gt;" in svg
    assert "100 (90.0 to 110)" in svg
    assert "prefers-color-scheme: dark" in svg


def test_backends_of_tasks_race_without_djangos_logging_and_with_it_the_others_once(bench: Bench) -> None:
    drains: list[tuple[Any, ...]] = []

    class Fake:
        def __init__(self, name: str) -> None:
            self.name, self.profile = name, PEERS[name]

        def drain(self, *arguments: Any) -> Drain:
            drains.append((self.name, *arguments))
            return Drain(1.0, 0)

    peers: Any = [Fake("django_ox"), Fake("graphile_worker")]
    found = rivals.draining_tasks(replace(bench, quick=False, peers=peers), {BODY: "0.005"}, at_most=3_000)
    assert [each.name for each in found] == ["django_ox", "django_ox, logging on", "graphile_worker"]
    assert [each.measure() for each in found if each.measure] == [1.0] * 3
    assert drains == [
        ("django_ox", 2_000, 1, {BODY: "0.005"}),
        ("django_ox", 2_000, 1, {BODY: "0.005", LOGGING: "default"}),
        ("graphile_worker", 3_000, 1, {BODY: "0.005"}),
    ]


@pytest.mark.slow
@pytest.mark.once
def test_the_command_measures_and_writes_what_it_found(tmp_path: Path) -> None:
    numbers, page = tmp_path / "numbers.json", tmp_path / "page.md"
    options = (
        "--quick",
        "--tmpfs",
        "--rounds",
        "1",
        "--no-peers",
        "--database",
        "sqlite",
        "--only",
        "bulk,drain-one,tasks,memory",
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.queue", *options, "--json", str(numbers), "--page", str(page)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(180),
    )
    assert done.returncode == 0, done.stderr
    [bulk, drain, nothing, waiting, *memory] = json.loads(numbers.read_text())["databases"]["sqlite"]["contests"]
    assert {each["contestant"] for each in bulk["figures"]} >= {"raw multi-row insert", "enqueue_many"}
    assert all(each["median"] > 0 for each in [*bulk["figures"], *drain["figures"]])
    ours = ["worker", "tasks", "tasks with results", "tasks, logging on", "tasks with results, logging on"]
    assert [each["contestant"] for each in nothing["figures"]] == ours
    assert [each["contestant"] for each in waiting["figures"]] == ours
    assert all(0 < each["median"] <= 1_700 for each in waiting["figures"])
    assert all(each["verdicts"][0]["met"] for each in memory)
    assert len(memory) == 2
    assert "## drain, batch of 1" in page.read_text()
