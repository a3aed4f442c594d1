"""A job that ``python -m django_dbqueue.spark`` runs, where there is no Django: only its credentials lead it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from django_dbqueue.spark import __main__ as without_django

pytestmark = pytest.mark.django_db(transaction=True)


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
