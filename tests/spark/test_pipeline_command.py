"""The command ``queue_pipeline``: what it takes, what it says, and what it does without Spark and Java."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from django.core.management import load_command_class

from django_dbqueue.models import HistoryReader, Stream
from django_dbqueue.spark.jobs.arguments import arguments_of
from django_dbqueue.spark.jobs.config import JOBS
from tests.spark.calling import call, shell, typed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]


def test_help_names_every_job_and_every_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("--help") == 0
    shown = capsys.readouterr().out
    assert [name for name, job in JOBS.items() if name not in shown or job.help[:20] not in shown] == []
    parser = load_command_class("django_dbqueue", "queue_pipeline").create_parser("manage.py", "queue_pipeline")
    [jobs] = [action.choices for action in parser._actions if action.dest == "job"]
    assert isinstance(jobs, dict)
    assert set(jobs) == set(JOBS)
    for name, job in JOBS.items():
        shown = jobs[name].format_help()
        for each in arguments_of(job.config):
            assert "--" + each.name.rstrip("_").replace("_", "-") in shown
        assert "--database" in shown
        assert ("--master" in shown) == job.needs_spark


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "the following arguments are required: job"),
        (("exprot",), "invalid choice: 'exprot'"),
        (("export",), "the following arguments are required: --lake"),
        (("export", "--lake", "x", "--older-than", "soon"), "'soon' is not a length of time: write seconds, or 15m"),
        (("replay", "--lake", "x", "--from", "31.1.2026"), "'31.1.2026' is not a day: write YYYY-MM-DD"),
        (("replay", "--lake", "x", "--rate", "0"), "'0' is not a number of messages per second"),
        (("replay", "--lake", "x", "--limit", "-1"), "'-1' is not a whole number from 1"),
        (("replay", "--lake", "x", "--to-queue", "no queue"), "is not a queue name"),
        (("replay", "--lake", "x", "--from", "2026-02-01", "--to", "2026-01-01"), "is after --to"),
        (("statistics", "--since", "yesterday"), "'yesterday' is not a date or time"),
        (("statistics", "--conf", "spark"), "'spark' should be NAME=VALUE"),
        (("statistics", "--laek", "x"), "unrecognized arguments: --laek"),
        (("release", "--stream", "no such"), "'no such' is not a valid name"),
    ],
)
def test_wrong_options_are_reported_in_a_sentence_and_end_with_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert typed(*arguments) == 2

    output = capsys.readouterr().err
    assert words in output
    assert "Traceback" not in output


def test_without_java_one_sentence_names_what_to_install(worker_env: dict[str, str], tmp_path: Path) -> None:
    environment = {name: value for name, value in worker_env.items() if name != "JAVA_HOME"}

    ended_so = shell(environment, "statistics", PATH="", TMPDIR=str(tmp_path))

    assert ended_so.returncode == 1
    assert "needs Java 17 or newer, but there is no java on the PATH" in ended_so.stderr
    assert "apt-get install default-jre-headless" in ended_so.stderr
    assert ended_so.stderr.strip().count("\n") == 0
    assert not list(tmp_path.glob("dbqueue-*"))


def test_a_java_home_without_java_is_named(worker_env: dict[str, str], tmp_path: Path) -> None:
    ended_so = shell(worker_env, "statistics", JAVA_HOME=str(tmp_path))

    assert (ended_so.returncode, ended_so.stderr.strip().count("\n")) == (1, 0)
    assert f"JAVA_HOME is {str(tmp_path)!r}" in ended_so.stderr


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_without_pyspark_one_sentence_names_what_to_install(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))

    code, _out, complaint = call("statistics")

    assert code == 1
    assert f"the package {package} is not installed: pip install 'django-dbqueue[spark]'" in complaint
    assert not list(scratch.iterdir())


def test_an_alias_that_is_none_is_refused() -> None:
    code, _out, complaint = call("streams", "--database", "defualt")

    assert code == 2
    assert "'defualt' in DATABASES. Did you mean 'default'?" in complaint


def test_streams_and_release_need_neither_spark_nor_java(worker_env: dict[str, str], tmp_path: Path) -> None:
    assert "No stream has consumed" in shell(worker_env, "streams", PATH="").stdout
    Stream.objects.create(name="s", queue="emails", on_expired="hold", lease_seconds=60)

    shown = shell(worker_env, "streams", PATH="", TMPDIR=str(tmp_path)).stdout
    released = shell(worker_env, "release", "--stream", "s", PATH="", TMPDIR=str(tmp_path))

    assert shown.startswith("s  queue emails  not running since ")
    assert (released.returncode, "0 messages were released" in released.stdout) == (0, True)
    refused = shell(worker_env, "release", "--stream", "t", PATH="", TMPDIR=str(tmp_path))
    assert (refused.returncode, "There is no stream 't'" in refused.stderr) == (2, True)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".lock"}, "nothing else is left"


def test_readers_are_listed_and_forgotten_without_java(worker_env: dict[str, str]) -> None:
    assert "Nobody reads the history" in shell(worker_env, "readers", PATH="").stdout
    HistoryReader.objects.create(name="billing", position=7)

    assert shell(worker_env, "readers", PATH="").stdout.startswith("billing  at the archive's id 7, ")
    refused = shell(worker_env, "forget", "--reader", "bliling", PATH="")
    assert (refused.returncode, "There are: billing." in refused.stderr) == (2, True)
    assert shell(worker_env, "forget", PATH="").returncode == 2
    assert "The reader 'billing' is forgotten" in shell(worker_env, "forget", "--reader", "billing", PATH="").stdout
    assert not HistoryReader.objects.exists()
