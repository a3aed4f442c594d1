"""A server that is stopped, crashed and started again under load, and a worker that outlives it.

SQLite has no server. A MySQL that is given by its URL is not ours to restart; where no ``mysqld`` is here besides, the
sessions are killed instead (``test_bad_days``).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.process.conftest import GuardianProcess, WorkerProcess, wait_until
from tests.process.private_servers import OURS, django, prepared
from tests.servers.private import PrivateServer
from tests.servers.version import server_version

CRASHES = ["the server", "a backend"] if settings.TEST_DATABASE == "postgres" else ["the server"]

if settings.TEST_DATABASE in OURS:

    @pytest.fixture
    def server() -> Iterator[PrivateServer]:
        with OURS[settings.TEST_DATABASE][0].running() as running:
            yield running

    @pytest.mark.slow
    def test_restarts_and_crashes_under_load_lose_nothing_and_need_no_restart_of_the_worker(
        server: PrivateServer, tmp_path: Path
    ) -> None:
        environment = prepared(server)
        django(environment, "Message.objects.enqueue_many([{'do': 'sleep', 'seconds': 0.01}] * 600, queue='test')")
        worker = WorkerProcess(environment, tmp_path, ("--processes", "2", "--threads", "2", "--batch", "20"))
        try:
            for round_, end in enumerate((server.stop, server.kill, server.stop), start=1):
                worker.wait_for("end", times=100 * round_)
                end()
                worker.wait_for_output("database trouble")
                server.start()
            worker.wait_for("end", times=600)
            done = "print(Message.objects.done('test').count(), Message.objects.exclude(status='y').count())"
            wait_until(lambda: django(environment, done) == "600 0", "all 600 done")
            assert worker.process.poll() is None
            assert worker.output.count("child") == worker.output.count("children"), "no child had to be replaced"
        finally:
            worker.end()

    def kill_a_backend(server: PrivateServer) -> None:
        """As the kernel does for memory: all others end too, and the postmaster, whose start it is not, recovers."""
        import psycopg

        with psycopg.connect(server.url) as victim:
            os.kill(victim.info.backend_pid, signal.SIGKILL)

    def answers(server: PrivateServer) -> Any:
        try:
            return server_version(server.url)
        except Exception:  # each driver has its own word for "not yet"
            return None

    def status_and_crashes(environment: dict[str, str], queue: str) -> str:
        return django(environment, f"m = Message.objects.get(queue={queue!r}); print(m.status, m.crashes)")

    def beats_since_the_restart(environment: dict[str, str], queue: str) -> str:
        """Return how many workers of a queue have beaten in a session of the server as it runs now."""
        code = (
            "from django_dbqueue.models import Worker; from django_dbqueue.databases import server_of; "
            "from django.db import connection; c = connection.cursor(); "
            "c.execute(server_of(connection).sessions.me().sql); here = c.fetchone()[1]; "
            f"print(Worker.objects.filter(queues={queue!r}, server=here).count())"
        )
        return django(environment, code)

    @pytest.mark.slow
    @pytest.mark.parametrize("crashed", CRASHES)
    def test_a_restart_makes_no_dead_worker_seem_alive_beyond_its_lease_and_no_living_one_dead(
        server: PrivateServer, tmp_path: Path, crashed: str
    ) -> None:
        """All sessions end with the server, and their numbers come again: nobody is judged by what was before."""
        environment, gate = prepared(server), tmp_path / "gate"
        processes: list[WorkerProcess] = []
        state = partial(status_and_crashes, environment)

        def hold(name: str, queue: str, *arguments: str) -> WorkerProcess:
            """A worker that runs one message until the gate is there."""
            (tmp_path / name).mkdir()
            django(environment, f"Message.objects.enqueue({{'do': 'until', 'file': {str(gate)!r}}}, queue={queue!r})")
            worker = WorkerProcess(environment, tmp_path / name, ("--queues", queue, *arguments))
            processes.append(worker)
            worker.wait_for("begin")
            return worker

        try:
            guardian = GuardianProcess(environment, tmp_path, ("--watch",))
            processes.append(guardian)
            living = hold("living", "test", "--lease", "600")
            frozen = hold("frozen", "second", "--lease", "600")
            dead = hold("dead", "short-lease")
            frozen.signal_all(signal.SIGSTOP)
            (server.kill if crashed == "the server" else partial(kill_a_backend, server))()
            dead.signal_all(signal.SIGKILL)
            guardian.wait_for_output("Database trouble")
            if crashed == "the server":
                server.start()
            wait_until(lambda: answers(server), "the server to answer")
            wait_until(lambda: state("short-lease") == "n 1", "the dead worker's message to come at its lease's end")
            wait_until(lambda: beats_since_the_restart(environment, "test") == "1", "the living worker to be back")
            late = hold("late", "third", "--lease", "600")
            late.signal_all(signal.SIGKILL)
            wait_until(lambda: state("third") == "n 1", "who died after the restart to be found as ever")
            assert (state("test"), state("second")) == ("run 0", "run 0")
            gate.touch()
            frozen.signal_all(signal.SIGCONT)
            for worker, queue in ((living, "test"), (frozen, "second")):
                wait_until(lambda queue=queue: state(queue) == "y 0", f"the message of {queue} to be done")
                assert len(worker.notes("begin")) == 1
        finally:
            for process in processes:
                process.end()

    @pytest.mark.slow
    def test_what_a_child_that_died_during_an_outage_had_not_begun_is_not_charged_though_its_lease_has_ended(
        server: PrivateServer, tmp_path: Path
    ) -> None:
        """Another worker is back as soon as the supervisor who knows it."""
        environment, gate = prepared(server), tmp_path / "gate"
        processes: list[WorkerProcess] = []

        def start(name: str) -> WorkerProcess:
            (tmp_path / name).mkdir()
            processes.append(WorkerProcess(environment, tmp_path / name, ("--lease", "2", "--batch", "9")))
            return processes[-1]

        def reads(state: str) -> str:
            rows = f"Message.objects.{state}('test').order_by('id').values_list('read_count', flat=True)"
            return django(environment, f"print(*{rows})")

        try:
            django(environment, "Message.objects.enqueue({'do': 'ok'}, queue='test')")
            other = start("other")
            other.wait_for("ok")
            wait_until(lambda: reads("done") == "1", "the other worker to be at work")
            other.signal_all(signal.SIGSTOP)
            do = f"{{'do': 'until', 'file': {str(gate)!r}}}"
            django(environment, f"Message.objects.enqueue_many([{do}] * 6, queue='test')")
            dying = start("dying")
            [begun] = dying.wait_for("begin")
            wait_until(lambda: len(reads("running")) > 1, "a message to be fetched ahead")
            server.stop()
            os.kill(begun["pid"], signal.SIGKILL)
            other.signal_all(signal.SIGCONT)
            for worker in (other, dying):
                worker.wait_for_output("trouble" if worker is other else "can't settle")
            time.sleep(2.5)  # the leases of 2 s end, by a clock that nobody can ask
            server.start()
            gate.touch()
            wait_until(lambda: len(reads("done").split()) == 7, "all to be done")
            assert reads("done") == "1 2 1 1 1 1 1"
        finally:
            for process in processes:
                process.end()
