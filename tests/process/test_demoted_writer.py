"""A failover that cuts no connection: the writer takes no writes any more, and its name leads to another server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from django_dbqueue.databases import Statement
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.lasting import Lasting
from tests.process.conftest import WorkerProcess, wait_until
from tests.process.pooler import relay
from tests.process.private_servers import OURS, django, prepared

THREADS = 3

if settings.TEST_DATABASE in OURS:  # SQLite has no server, and a MySQL that is given by its URL isn't ours to demote

    class Failover(NamedTuple):
        """Two servers with the queue's tables, and the name that leads to one of them after the other."""

        old: dict[str, str]
        new: dict[str, str]
        named: dict[str, str]
        leads_to: list[str]

        def run(self) -> None:
            """The old server takes no writes any more, and keeps its sessions; who connects now reaches the new one."""
            if settings.TEST_DATABASE == "postgres":
                sql = ["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"]
            else:
                sql = ["SET GLOBAL read_only = 1"]
            execute(self.old, *sql)
            self.leads_to.append(self.new["DBQUEUE_TEST_URL"])

    def execute(environment: dict[str, str], *statements: str) -> None:
        django(
            environment, f"from django.db import connection as c; [c.cursor().execute(each) for each in {statements}]"
        )

    @pytest.fixture
    def failover() -> Iterator[Failover]:
        kind = OURS[settings.TEST_DATABASE][0]
        with kind.running() as writer, kind.running() as replica:
            old, new = prepared(writer), prepared(replica)
            leads_to = [writer.url]
            with relay(writer.url, leads_to=leads_to) as url:
                if settings.TEST_DATABASE != "postgres":  # root may write to a server that only reads
                    url = urlsplit(url)._replace(netloc=f"app:x@127.0.0.1:{urlsplit(url).port}").geturl()
                    for each in (old, new):
                        execute(each, "CREATE USER app@'%' IDENTIFIED BY 'x'", "GRANT ALL ON restarted.* TO app@'%'")
                yield Failover(old, new, old | {"DBQUEUE_TEST_URL": url}, leads_to)

    def test_no_thread_of_a_worker_stays_on_a_demoted_writer_and_no_message_fails_of_it(
        failover: Failover, tmp_path: Path
    ) -> None:
        """Its threads are idle: they learn of it from the first of its sessions that writes."""
        old, new, gate = failover.old, failover.new, tmp_path / "gate"
        held = {"do": "effect", "then": {"do": "until", "file": str(gate)}}
        django(old, f"Message.objects.enqueue_many([{held!r}] * {THREADS}, queue='test')")
        worker = WorkerProcess(failover.named, tmp_path, ("--queues", "test", "--threads", str(THREADS)))
        try:
            worker.wait_for("begin", times=THREADS)
            gate.touch()
            acked = "print(Message.objects.done('test').count())"
            wait_until(lambda: django(old, acked) == str(THREADS), "a session in each thread, and all acked")
            failover.run()
            django(new, "Message.objects.enqueue_many([{'do': 'effect'}] * 30, queue='test')")
            ended = "print(Message.objects.done('test').count(), Message.objects.dead('test').count())"
            wait_until(lambda: sum(map(int, django(new, ended).split())) == 30, lambda: worker.output)
            assert django(new, ended) == "30 0"
            assert len(worker.notes("begin")) == THREADS + 30
            if settings.TEST_DATABASE == "postgres":
                listens = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'"
                found = f"from django.db import connection as c; k = c.cursor(); k.execute({listens!r}); "
                found += "print(*k.fetchone())"
                wait_until(lambda: django(new, found) == "1", "a session that listens there")
        finally:
            worker.end()

    def test_a_session_of_spark_leaves_a_demoted_writer(failover: Failover) -> None:
        address = "from django_dbqueue.management.spark_settings import credentials_of; print(credentials_of('default')"
        credentials = Credentials.parse(django(failover.named, f"{address}.to_json())"), where="the test")

        def write(connection: Connection) -> int:
            connection.run(Statement("DELETE FROM django_dbqueue_queue", ()))
            port = "inet_server_port()" if connection.vendor == "postgresql" else "@@port"
            return int(connection.fetch(Statement(f"SELECT {port}", ()))[0][0])

        with Lasting(credentials, outage=60) as session:
            ports = [session.ask(write)]
            failover.run()
            ports.append(session.ask(write))
        assert ports == [urlsplit(each["DBQUEUE_TEST_URL"]).port for each in (failover.old, failover.new)]
