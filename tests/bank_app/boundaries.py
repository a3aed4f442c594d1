"""Dies, or lets its database session die, at the points of a delivery that a plan names.

A point lies before or after each statement that the handler's thread sends, from BEGIN on, and before and after the
worker lets go of the message; not at a question about the session. Points are found by listening on the connection, and
are not listed here, so that a new statement of the package is covered the day it comes.

The plan is a directory: ``plan.json`` has the numbers of transfers, and for each a list of ``[what, point]``;
``passed.log`` gets a line for each point of the transfers in ``watched``, ``hit.log`` one for each death. With
``in_steps`` a point also says in which of a delivery's transactions it lies, and whether the message had slept.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.db.backends.signals import connection_created

from django_dbqueue.worker import handler_threads
from django_dbqueue.worker.holding import Holding

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_dbqueue.worker.delivery import Delivery
    from django_dbqueue.worker.execution import Verdict

KILL, KILL_ALL, CUT = "kill", "kill all", "cut"
"""The process; it, its supervisor and its like; the database session."""


class _Delivery(threading.local):
    """The delivery that this thread works on, and how many statements it has sent since its transaction began."""

    number: int | None = None
    has_slept = False
    transactions = 0
    statements = 0


_current = _Delivery()


def follow(directory: str) -> None:
    """Follow the plan in that directory, in this process and its children."""
    plan = Plan(Path(directory))
    execute, drop = handler_threads.execute, Holding.drop

    def execute_watched(delivery: Delivery) -> Verdict:
        if plan.in_steps:
            _current.transactions = _current.statements = 0
            _current.has_slept = "clear" in delivery.message.steps_done
            delivery.message.begin_run()
        _current.number = _number(delivery)
        try:
            return execute(delivery)
        finally:
            _current.number = None

    def drop_watched(self: Holding, *deliveries: Delivery) -> None:
        numbers = [_number(delivery) for delivery in deliveries]
        for number in numbers:
            plan.at(number, "before letting go")
        drop(self, *deliveries)
        for number in numbers:
            plan.at(number, "after letting go")

    def watch(connection: Any, **_: Any) -> None:
        if plan.sent not in connection.execute_wrappers:
            connection.execute_wrappers.append(plan.sent)
            connection._set_autocommit = plan.watched(connection._set_autocommit, lambda on: f"autocommit {on}")
            connection._commit = plan.watched(connection._commit, lambda: "COMMIT")

    handler_threads.execute = execute_watched  # type: ignore[assignment]
    Holding.drop = drop_watched  # type: ignore[method-assign]
    connection_created.connect(watch, weak=False)


def _number(delivery: Delivery) -> int:
    """Return the number of the transfer, of which a message may be the payload, or a task an argument."""
    payload = delivery.message.payload
    number: int = payload.get("kwargs", payload)["number"]
    return number


class Plan:
    """What is to happen at which point of which transfer."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        plan = json.loads((directory / "plan.json").read_text())
        self._watched = set(plan["watched"])
        self.in_steps = bool(plan.get("in_steps"))
        self._deaths: dict[str, list[tuple[str, str]]] = plan["deaths"]

    def sent(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """Look before and after a statement of Django's cursor."""
        return self.watched(lambda: execute(sql, params, many, context), lambda: " ".join(sql.split()[:3]))()

    def watched(self, send: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        """Make a function that looks before and after it sends something."""

        def check_and_send(*args: Any) -> Any:
            number = _current.number
            if number is None:
                return send(*args)
            words = name(*args)
            if words.startswith("SELECT @@"):  # asked once in a session, so that only some deliveries have it
                return send(*args)
            if words.startswith("BEGIN") or words == "autocommit False":
                _current.statements = 0
                _current.transactions += 1
            _current.statements += 1
            what = f"{_current.statements} {'SAVEPOINT' if 'SAVEPOINT' in words else words}"
            if self.in_steps:
                what = f"{'slept' if _current.has_slept else 'new'} {_current.transactions}.{what}"
            self.at(number, f"before {what}")
            answer = send(*args)
            self.at(number, f"after {what}")
            return answer

        return check_and_send

    def at(self, number: int, point: str) -> None:
        """Note the point, and die if the plan says so and it hasn't happened yet."""
        if number in self._watched:
            self._note("passed.log", number, point)
        for turn, (what, where) in enumerate(self._deaths.get(str(number), [])):
            happened = self._directory / f"{number}-{turn}"
            if happened.exists():
                continue
            if where == point:
                with self._lock:  # one death for each process, whatever its threads are at
                    happened.touch()
                    self._note("hit.log", number, point)
                    _DEATHS[what]()
            return

    def _note(self, name: str, number: int, point: str) -> None:
        file = os.open(self._directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (json.dumps([number, point]) + "\n").encode())
        finally:
            os.close(file)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_with_the_supervisor() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _cut_session() -> None:
    """End the session of this thread's connection from another one, as an operator would."""
    number, _current.number = _current.number, None
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            if other.vendor == "postgresql":
                cursor.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
            else:
                cursor.execute(f"KILL {int(connection.connection.thread_id())}")
    finally:
        other.close()
        _current.number = number


_DEATHS = {KILL: _die, KILL_ALL: _die_with_the_supervisor, CUT: _cut_session}
