"""The two ways to call a job: what they take, what they say, how they end, and what they leave behind."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command, load_command_class
from django.test import override_settings

from django_dbqueue.models import HistoryReader, Message, QueueStatistic, Stream
from django_dbqueue.spark import __main__ as without_django
from django_dbqueue.spark.jobs.arguments import arguments_of
from django_dbqueue.spark.jobs.config import JOBS
from tests.process.conftest import wait_until
from tests.spark.histories import ended, saved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.django_db(transaction=True)

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, with nothing else in it."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def call(*arguments: str) -> tuple[int, str, str]:
    """Run the command in this process: its exit code, what it printed, and what it complained of."""
    out = io.StringIO()
    try:
        call_command("queue_pipeline", *arguments, stdout=out)
    except CommandError as error:
        return error.returncode, out.getvalue(), str(error)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), ""
    return 0, out.getvalue(), ""


def shell(worker_env: dict[str, str], *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "django", "queue_pipeline", *arguments],
        env=worker_env | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def typed(*arguments: str) -> int:
    """Run the command as the shell does, in this process, and return its exit code."""
    try:
        load_command_class("django_dbqueue", "queue_pipeline").run_from_argv(
            ["manage.py", "queue_pipeline", *arguments]
        )
    except SystemExit as end:
        return int(end.code or 0)
    return 0


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
        (("export", "--lake", "x", "--older-than", "soon"), "'soon' is no length of time: write seconds, or 15m"),
        (("replay", "--lake", "x", "--from", "31.1.2026"), "'31.1.2026' is no day: write YYYY-MM-DD"),
        (("replay", "--lake", "x", "--rate", "0"), "'0' is not a number of messages per second"),
        (("replay", "--lake", "x", "--limit", "-1"), "'-1' is not a whole number from 1"),
        (("replay", "--lake", "x", "--to-queue", "no queue"), "is no queue name"),
        (("replay", "--lake", "x", "--from", "2026-02-01", "--to", "2026-01-01"), "is after --to"),
        (("statistics", "--since", "yesterday"), "'yesterday' is no moment"),
        (("statistics", "--conf", "spark"), "'spark' should be NAME=VALUE"),
        (("statistics", "--laek", "x"), "unrecognized arguments: --laek"),
        (("release", "--stream", "no such"), "'no such' is no name"),
    ],
)
def test_wrong_options_are_told_in_a_sentence_and_end_with_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert typed(*arguments) == 2

    told = capsys.readouterr().err
    assert words in told
    assert "Traceback" not in told


def test_without_java_one_sentence_says_what_to_install(worker_env: dict[str, str], tmp_path: Path) -> None:
    environment = {name: value for name, value in worker_env.items() if name != "JAVA_HOME"}

    ended_so = shell(environment, "statistics", PATH="", TMPDIR=str(tmp_path))

    assert ended_so.returncode == 1
    assert "needs Java 17 or newer, and there is no java on the PATH" in ended_so.stderr
    assert "apt-get install default-jre-headless" in ended_so.stderr
    assert ended_so.stderr.strip().count("\n") == 0
    assert not list(tmp_path.glob("dbqueue-*"))


def test_a_java_home_without_java_is_named(worker_env: dict[str, str], tmp_path: Path) -> None:
    ended_so = shell(worker_env, "statistics", JAVA_HOME=str(tmp_path))

    assert (ended_so.returncode, ended_so.stderr.strip().count("\n")) == (1, 0)
    assert f"JAVA_HOME is {str(tmp_path)!r}" in ended_so.stderr


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_without_pyspark_one_sentence_says_what_to_install(
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

    assert (code, complaint) == (1, "There is no database 'defualt' in DATABASES. Did you mean 'default'?")


def test_streams_and_release_need_neither_spark_nor_java(worker_env: dict[str, str], tmp_path: Path) -> None:
    assert "No stream has consumed" in shell(worker_env, "streams", PATH="").stdout
    Stream.objects.create(name="s", queue="emails", on_expired="hold", lease_seconds=60)

    shown = shell(worker_env, "streams", PATH="", TMPDIR=str(tmp_path)).stdout
    released = shell(worker_env, "release", "--stream", "s", PATH="", TMPDIR=str(tmp_path))

    assert shown.startswith("s  queue emails  not running since ")
    assert (released.returncode, "0 messages went back" in released.stdout) == (0, True)
    refused = shell(worker_env, "release", "--stream", "t", PATH="", TMPDIR=str(tmp_path))
    assert (refused.returncode, "There is no stream 't'" in refused.stderr) == (2, True)
    assert not list(tmp_path.iterdir())


def test_readers_are_listed_and_forgotten_without_java(worker_env: dict[str, str]) -> None:
    assert "Nobody reads the history" in shell(worker_env, "readers", PATH="").stdout
    HistoryReader.objects.create(name="billing", position=7)

    assert shell(worker_env, "readers", PATH="").stdout.startswith("billing  at the archive's id 7, ")
    refused = shell(worker_env, "forget", "--reader", "bliling", PATH="")
    assert (refused.returncode, "There are: billing." in refused.stderr) == (2, True)
    assert shell(worker_env, "forget", PATH="").returncode == 2
    assert "The reader 'billing' is forgotten" in shell(worker_env, "forget", "--reader", "billing", PATH="").stdout
    assert not HistoryReader.objects.exists()


@pytest.mark.spark
def test_a_job_runs_in_the_caller_s_session_and_leaves_no_credentials(spark: SparkSession, scratch: Path) -> None:
    saved(ended(NINE))

    code, out, _complaint = call("statistics")

    assert (code, "1 roll-ups of 1 messages" in out) == (0, True)
    assert QueueStatistic.objects.get().messages == 1
    assert not list(scratch.iterdir())
    assert spark.range(3).count() == 3  # it was not stopped


@pytest.mark.spark
def test_a_job_that_fails_says_why_in_one_sentence_and_leaves_no_credentials(
    spark: SparkSession, scratch: Path, tmp_path: Path
) -> None:
    code, _out, complaint = call("replay", "--lake", str(tmp_path / "nowhere"))

    assert (code, complaint.startswith("There is no lake at ")) == (2, True)
    assert not list(scratch.iterdir())


@pytest.mark.spark
def test_the_credentials_file_is_the_user_s_alone(spark: SparkSession, scratch: Path, monkeypatch: Any) -> None:
    from django_dbqueue.spark.jobs import statistics

    modes: list[int] = []

    def run(_spark: Any, config: Any, *, progress: Callable[..., None]) -> str:
        modes.append(Path(config.credentials_file).stat().st_mode & 0o777)
        raise KeyboardInterrupt

    monkeypatch.setattr(statistics, "run", run)

    assert call("statistics")[0] == 130
    assert modes == [0o600]
    assert not list(scratch.iterdir())


@pytest.mark.spark
def test_an_ingest_takes_from_the_settings_what_an_enqueue_would(
    spark: SparkSession, scratch: Path, tmp_path: Path
) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("n\n1\n")
    arguments = ("ingest", "--source", str(source), "--option", "header=true", "--queue", "emails", "--job-id", "one")
    with override_settings(DBQUEUE={"QUEUES": {"emails": {"priority": 7}}, "MAX_PAYLOAD_BYTES": 5}):
        code, _out, complaint = call(*arguments)
        assert (code, "MAX_PAYLOAD_BYTES" in complaint) == (1, True)
        assert call(*arguments, "--max-payload-bytes", "100")[0] == 0

    assert [(message.payload, message.priority) for message in Message.objects.all()] == [({"n": "1"}, 7)]


@contextlib.contextmanager
def started(worker_env: dict[str, str], scratch: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "queue_pipeline", *arguments],
        env=worker_env | {"TMPDIR": str(scratch)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if settings.TEST_DATABASE == "sqlite":

    @pytest.mark.spark
    @pytest.mark.parametrize(
        ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly)]
    )
    def test_a_stop_signal_removes_the_credentials_and_ends_the_jvm(
        worker_env: dict[str, str], tmp_path: Path, number: signal.Signals, code: int
    ) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        local = f"spark.local.dir={tmp_path / 'local'}"
        arguments = ("statistics", "--conf", "spark.driver.memory=1g", "--conf", local)
        with started(worker_env, scratch, *arguments) as process:
            wait_until(lambda: list(scratch.glob("dbqueue-*.json")), "the credentials file")
            wait_until(lambda: list(tmp_path.glob("local/blockmgr-*")), "the session")

            process.send_signal(number)

            assert process.wait(60) == code
            assert not list(scratch.glob("dbqueue-*.json"))
            wait_until(lambda: not _members(process.pid), "the end of the JVM")


def _members(group: int) -> list[int]:
    """The processes of a group that are left."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            state, _parent, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                found.append(int(stat.parent.name))
    return found


def test_without_django_wrong_arguments_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert without_django.main(["streams"]) == 2
    assert "--credentials-file FILE, or --credentials-env VARIABLE" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        without_django.main(["exprot"])
    assert without_django.main(["streams", "--credentials-file", "/nowhere/at/all"]) == 2
    assert "can't be read here" in capsys.readouterr().err


def test_without_django_a_job_runs_by_its_credentials(worker_env: dict[str, str], credentials_file: str) -> None:
    blocked = (
        "import sys, runpy; sys.modules['django'] = None; "
        f"sys.argv[1:] = ['streams', '--credentials-file', {credentials_file!r}]; "
        "runpy.run_module('django_dbqueue.spark', run_name='__main__')"
    )
    ended_so = subprocess.run(
        [sys.executable, "-c", blocked], env=worker_env, capture_output=True, text=True, check=False
    )

    assert (ended_so.returncode, ended_so.stderr) == (0, "")
    assert "No stream has consumed" in ended_so.stdout


def test_a_database_that_is_away_is_one_sentence(worker_env: dict[str, str], tmp_path: Path) -> None:
    gone = {"sqlite": f"sqlite://{tmp_path / 'gone.sqlite3'}", "postgres": "postgres://u@127.0.0.1:1/x"}
    url = gone.get(settings.TEST_DATABASE, "mysql://u@127.0.0.1:1/x")
    ended_so = subprocess.run(
        [sys.executable, "-m", "django_dbqueue.spark", "streams", "--credentials-env", "WHERE"],
        env=worker_env | {"WHERE": url},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended_so.returncode in (1, 2)
    assert "Traceback" not in ended_so.stderr
    assert ended_so.stderr.strip()
