"""A back-up as docs/how-to/production.md has it, restored: the queue of that moment, which workers drain to its end."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.models import Message
from tests.conftest import ROOT
from tests.factories import MessageFactory, let_end
from tests.process.conftest import start_worker
from tests.servers.private import find_program

__all__ = ["start_worker"]

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = (ROOT / "docs" / "how-to" / "production.md").read_text().partition(". Back-up\n")[2]
NAMES = {"mariadb": "MariaDB", "mysql": "MySQL", "postgres": "PostgreSQL", "sqlite": "SQLite"}


def on_the_page() -> list[str]:
    """The page's command for this server, without its redirection."""
    [command] = re.findall(rf"^\| {NAMES[settings.TEST_DATABASE]} \| `([^`]+)`", PAGE, re.M)
    return shlex.split(command.partition(" > ")[0])


def back_up(file: Path) -> None:
    program, *options = on_the_page()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(" ".join([program, *options]).replace("backup.sqlite3", f"'{file}'"))
        return
    assert options.pop() == "shop"
    if connection.vendor == "postgresql":
        options = [*(f"--file={file}" if option.startswith("--file=") else option for option in options), _url()]
        run(program, *options)
    else:
        file.write_bytes(run(program, *_to_server(), *options, str(connection.settings_dict["NAME"])))


@pytest.fixture
def restore(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """Make a database of a back-up's file, and return its name."""
    if connection.vendor == "sqlite":
        yield str
        return
    name = f"{connection.settings_dict['NAME']}_restored"

    def into_a_new_one(file: Path) -> str:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        if connection.vendor == "postgresql":
            run("pg_restore", f"--dbname={_url(name)}", str(file))
        else:
            run(on_the_page()[0].replace("-dump", "").replace("dump", ""), *_to_server(), name, stdin=file.read_bytes())
        return name

    yield into_a_new_one
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def _url(name: str = "") -> str:
    its = connection.settings_dict
    return f"postgresql://{its['USER']}@{its['HOST']}:{its['PORT']}/{name or its['NAME']}"


def _to_server() -> list[str]:
    its = connection.settings_dict
    return [f"--host={its['HOST']}", f"--port={its['PORT']}", f"--user={its['USER']}", "--protocol=tcp"]


def run(program: str, *arguments: str, stdin: bytes | None = None) -> bytes:
    path = find_program(program)
    assert path is not None, f"{program} is not installed: bin/test does that"
    environment = os.environ | {"MYSQL_PWD": connection.settings_dict["PASSWORD"]}
    done = subprocess.run([path, *arguments], input=stdin, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_what_was_done_later_runs_again_and_what_was_done_before_does_not(
    start_worker: Callable[..., Any], restore: Callable[[Path], str], tmp_path: Path
) -> None:
    done, ran, waited = MessageFactory.create_batch(3, queue="test", payload={"do": "ok"})
    first, second = Message.objects.claim(2, queue="test")
    first.ack()
    let_end(second)
    back_up(tmp_path / "backup")
    later = MessageFactory(queue="test", payload={"do": "ok"})
    worker = start_worker("--drain", "--queues", "test")
    assert worker.ended() == 0, worker.output
    assert Message.objects.done("test").count() == 4
    worker.log.unlink()

    restored = start_worker("--drain", "--queues", "test", DBQUEUE_TEST_NAME=restore(tmp_path / "backup"))
    assert restored.ended() == 0, restored.output
    assert (first.pk, second.pk) == (done.pk, ran.pk)
    assert sorted(note["id"] for note in restored.notes("begin")) == [ran.pk, waited.pk], later.pk
