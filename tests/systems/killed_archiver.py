"""A process that is killed at a statement: ``python -m tests.systems.killed_archiver archive|purge|nack|…``.

For each number on standard input it forks a child that archives, or moves a message, and gets SIGKILL at the boundary
of that number, and it answers with a line of JSON: whether the child was killed, and the boundaries that it passed. A
boundary lies before and after whatever is sent to the server, BEGIN and COMMIT among it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import django

BATCH = 3
NUMBERS = re.compile(r"IN \([\d, ]+\)")
MOVES: dict[str, Callable[[Any], Any]] = {
    "nack": lambda message: message.nack(error="no"),
    "nack many": lambda message: type(message).objects.nack([message], error="no"),
    "reject": lambda message: message.reject("no"),
    "rescue": lambda message: type(message).objects.rescue(message.queue),
    "requeue": lambda message: type(message).objects.filter(pk=message.pk).requeue(by="ann"),
    "drop": lambda message: type(message).objects.filter(pk=message.pk).drop_all("no", by="ann"),
    "send again": lambda message: type(message).objects.filter(pk=message.pk).send_again(by="ann"),
}


class Boundaries:
    """Counts boundaries, writes their names into a pipe, and ends the process at one of them."""

    def __init__(self, last: int, pipe: int) -> None:
        self._left = last
        self._pipe = pipe

    def reach(self, name: str) -> None:
        os.write(self._pipe, f"{name}\n".encode())
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def around(self, send: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def watched(*args: Any) -> Any:
            self.reach(f"before {name(*args)}")
            answer = send(*args)
            self.reach(f"after {name(*args)}")
            return answer

        return watched

    def watch(self, connection: Any) -> None:
        connection.ensure_connection()
        connection._set_autocommit = self.around(connection._set_autocommit, lambda on: f"autocommit {on}")
        connection._commit = self.around(connection._commit, lambda: "COMMIT")
        connection._rollback = self.around(connection._rollback, lambda: "ROLLBACK")
        connection.execute_wrappers.append(self._statement)

    def _statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        run = self.around(lambda _: execute(sql, params, many, context), str)
        return run(NUMBERS.sub("IN (…)", " ".join(sql.split())))  # each round has ids of its own


def archive(verb: str, boundary: int, pipe: int) -> None:
    from django.db import connection

    from django_dbqueue.lifecycle import archive as module
    from django_dbqueue.models import Message

    module.BATCH = BATCH
    message = Message.objects.order_by("id").first()  # before it is watched: a move begins with its own statements
    Boundaries(boundary, pipe).watch(connection)
    if verb == "purge":
        Message.objects.all().purge()
    elif verb == "archive":
        Message.objects.archive(older_than=0)
    else:
        MOVES[verb](message)


def run_child(verb: str, boundary: int) -> dict[str, Any]:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            archive(verb, boundary, writer)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        points = lines.read().splitlines()
    status = os.waitpid(pid, 0)[1]
    return {"killed": os.WIFSIGNALED(status), "failed": bool(os.WEXITSTATUS(status)), "points": points}


def main(verb: str) -> None:
    django.setup()
    for line in sys.stdin:
        print(json.dumps(run_child(verb, int(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
