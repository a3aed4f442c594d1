"""A job that ``python -m django_dbqueue.spark`` runs, where there is no Django: only its credentials lead it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from django_dbqueue.models import Message
from django_dbqueue.spark import __main__ as without_django
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db(transaction=True)


def test_without_django_wrong_arguments_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert without_django.main(["streams"]) == 2
    assert "--credentials-file FILE or --credentials-env VARIABLE" in capsys.readouterr().err
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
        [sys.executable, "-m", "django_dbqueue.spark", "streams", "--outage", "0", "--credentials-env", "WHERE"],
        env=worker_env | {"WHERE": url},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended_so.returncode == (2 if settings.TEST_DATABASE == "sqlite" else 1)
    assert "Traceback" not in ended_so.stderr
    assert ended_so.stderr.strip()


def called(worker_env: dict[str, str], place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a job in this directory, as a scheduler does."""
    return subprocess.run(
        [sys.executable, "-m", "django_dbqueue.spark", *arguments],
        env=worker_env | {"PYTHONPATH": str(ROOT)}, cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("job", ["streams", "readers"])
def test_a_credentials_file_may_be_named_from_where_one_is(
    worker_env: dict[str, str], credentials_file: str, job: str
) -> None:
    place = Path(credentials_file).parent
    done = called(worker_env, place, job, "--credentials-file", Path(credentials_file).name)
    assert (done.returncode, done.stderr) == (0, "")
    missing = called(worker_env, place, job, "--credentials-file", "nowhere.json")
    assert missing.returncode == 2
    assert "The credentials file nowhere.json can't be read here" in missing.stderr
    assert "Traceback" not in missing.stderr


SECRET = "horse-battery-staple"


@pytest.mark.parametrize(
    "text",
    [
        f"mysql:/root:{SECRET}@h",
        f'{{"vendor": "mysql", "name": "n", "passwort": "{SECRET}"}}',
        f'["{SECRET}"]',
        SECRET,
        f'{{"vendor": "mysql", "name": "n", "host": "127.0.0.1", "port": 1, "password": "{SECRET}"}}',
        f'{{"vendor": "postgresql", "name": "n", "host": "127.0.0.1", "options": {{"passfil": "{SECRET}"}}}}',
    ],
)
def test_no_secret_is_shown_whatever_the_file_holds(worker_env: dict[str, str], tmp_path: Path, text: str) -> None:
    (tmp_path / "queue.json").write_text(text)
    for job in ("streams", "readers"):
        done = called(worker_env, tmp_path, job, "--outage", "0", "--credentials-file", "queue.json")
        assert done.returncode in (1, 2)
        assert SECRET not in done.stderr + done.stdout
        assert "Traceback" not in done.stderr


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize("fault", ["row", "server"])
def test_an_ingest_that_fails_prints_one_sentence_and_ends_with_1(
    worker_env: dict[str, str], credentials_file: str, tmp_path: Path, fault: str
) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("json\n{}\nno json\n")
    where = credentials_file
    if fault == "server":
        where = str(tmp_path / "away.json")
        Path(where).write_text(f"mysql://u:{SECRET}@127.0.0.1:1/x")
    done = called(
        worker_env, tmp_path, "ingest", "--credentials-file", where, "--outage", "0", "--queue", "q", "--job-id", "j",
        "--source", str(source), "--option", "header=true", "--column", "json=json", "--master", "local[1]",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "\tat org.apache" not in done.stderr
    assert SECRET not in done.stderr
    words = "Row 2 of partition 0 can't be a message" if fault == "row" else "can't be reached"
    assert words in done.stderr.splitlines()[-1]
    assert not Message.objects.exists()
