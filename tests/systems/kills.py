"""Processes that are killed at a statement.

A boundary lies before and after whatever is sent to the server, BEGIN and COMMIT among it. A process that serves such
kills forks a child for each number on its standard input; the child acts, and gets SIGKILL at the boundary of that
number. A line of JSON says whether it was killed, and which boundaries it passed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import django

from tests.patience import patience

NUMBERS = re.compile(r"IN \([\d, ]+\)")
End = dict[str, Any]


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


def serve(act: Callable[[Boundaries], object]) -> None:
    """Let a child act for each number that comes in; the child watches its connection when it begins."""
    django.setup()
    for line in sys.stdin:
        print(json.dumps(_end_of_child(act, int(line))), flush=True)


def _end_of_child(act: Callable[[Boundaries], object], boundary: int) -> End:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            act(Boundaries(boundary, writer))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        points = lines.read().splitlines()
    status = os.waitpid(pid, 0)[1]
    return {"killed": os.WIFSIGNALED(status), "failed": bool(os.WEXITSTATUS(status)), "points": points}


@contextmanager
def killed(module: str, verb: str, env: Mapping[str, str]) -> Iterator[Callable[[int], End]]:
    """Let the module's process act up to a boundary, and tell how it ended."""
    command = [sys.executable, "-m", module, verb]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=env, text=True, **pipes) as process:  # type: ignore[call-overload]

        def ask(boundary: int) -> End:
            process.stdin.write(f"{boundary}\n")
            process.stdin.flush()
            end: End = json.loads(process.stdout.readline())
            return end

        yield ask
        process.stdin.close()
        assert process.wait(patience(120)) == 0
