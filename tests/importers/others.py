"""The other queues as the tests see them: who enqueues there, who claims there, and what still waits."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core import signing
from django.db import connection, models, transaction
from django.db.models import F, Q
from django.utils import timezone

from django_dbqueue.models import Message
from django_dbqueue.models.fields import clock
from tests.commands.running import run
from tests.importers.layouts import DBTaskResult, Job, OrmQ, OxScheduleTick, OxTask
from tests.process.conftest import wait_until

NOTHING = "tests.tasks_app.jobs.nothing"
NEVER_DELAYED = datetime(9999, 1, 1, tzinfo=UTC)


class Other(ABC):
    """One of them."""

    name: str
    table: type[models.Model]
    dependents: tuple[type[models.Model], ...] = ()
    """The other tables that the package always has, and that name rows of the table."""

    @abstractmethod
    def enqueue(self, numbers: Iterable[int]) -> None:
        """Enqueue a call of ``tests.tasks_app.jobs.nothing`` with each of these numbers, as that package does."""

    @abstractmethod
    def claim(self) -> Any:
        """Claim one as that package's worker does, and return its primary key; None if nothing waits."""

    @abstractmethod
    def waiting(self) -> set[str]:
        """The primary keys of what waits, as that package's worker sees it."""

    def clear(self) -> None:
        """Delete all rows; the tables' registry knows no relations, so those that name others go first."""
        for table in (*self.dependents, self.table):
            table._base_manager.all().delete()

    def number(self, payload: Any) -> int:
        """The number that a message was enqueued with."""
        return int(payload["args"][0])


class DjangoTasksDB(Other):
    name = "django-tasks-db"
    table = DBTaskResult

    def enqueue(self, numbers: Iterable[int], **columns: Any) -> None:
        row: dict[str, Any] = {"task_path": NOTHING, "backend_name": "default"} | columns
        row.setdefault("run_after", NEVER_DELAYED)
        for number in numbers:
            DBTaskResult.objects.create(**{"args_kwargs": {"args": [number], "kwargs": {}}} | row)

    def claim(self) -> Any:
        """As ``db_worker`` and ``DBTaskResult.claim`` do in 0.13.0."""
        due = Q(run_after=NEVER_DELAYED) | Q(run_after__lte=timezone.now())
        with transaction.atomic():  # on SQLite an immediate one (tests.settings)
            found = DBTaskResult.objects.filter(due, status="READY").select_for_update(skip_locked=True).first()
            if found is None:
                return None
            found.status, found.started_at, found.worker_ids = "RUNNING", timezone.now(), ["w"]
            found.save(update_fields=["status", "started_at", "worker_ids"])
        return found.pk

    def waiting(self) -> set[str]:
        return set(map(str, DBTaskResult.objects.filter(status="READY").values_list("pk", flat=True)))


class DjangoOx(Other):
    name = "django-ox"
    table = OxTask
    dependents = (OxScheduleTick,)

    def enqueue(self, numbers: Iterable[int], **columns: Any) -> None:
        """As a schedule's worker does in 1.9.1: the task and its tick in one commit."""
        row: dict[str, Any] = {"task_path": NOTHING, "backend_name": "default"} | columns
        for number in numbers:
            now = timezone.now()
            with transaction.atomic():
                task = OxTask.objects.create(**{"args": [number], "kwargs": {}, "enqueued_at": now} | row)
                OxScheduleTick.objects.create(
                    schedule_name=str(task.pk), scheduled_for=now, task_id=task.pk, created_at=now
                )

    def claim(self) -> Any:
        """As ``Worker._claim_one`` does in 1.9.1."""
        due = Q(run_after__isnull=True) | Q(run_after__lte=timezone.now())
        ready = OxTask.objects.filter(due, status="READY").order_by("-priority", "enqueued_at")
        if not connection.features.has_select_for_update_skip_locked:  # compare and set
            found = ready.first()
            return found.pk if found is not None and self._begin(found) else None
        with transaction.atomic():
            found = ready.select_for_update(skip_locked=True).first()
            if found is not None:
                self._begin(found)
        return None if found is None else found.pk

    def _begin(self, task: OxTask) -> bool:
        same = OxTask.objects.filter(pk=task.pk, status="READY", attempts=task.attempts, lease_epoch=task.lease_epoch)
        now = timezone.now()
        return bool(
            same.update(
                status="RUNNING",
                locked_by="w",
                locked_at=now,
                lease_expires_at=now + timedelta(seconds=300),
                lease_epoch=F("lease_epoch") + 1,
                attempts=F("attempts") + 1,
                started_at=now,
                worker_ids=["w"],
            )
        )

    def waiting(self) -> set[str]:
        return set(map(str, OxTask.objects.filter(status="READY").values_list("pk", flat=True)))


class PickleSerializer:
    """As in ``django_q.signing``."""

    def dumps(self, obj: object) -> bytes:
        return pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)

    def loads(self, data: bytes) -> object:
        return pickle.loads(data)


class DjangoQ2(Other):
    name = "django-q2"
    table = OrmQ

    def enqueue(self, numbers: Iterable[int], *, salt: str = "default", compress: bool = False, **columns: Any) -> None:
        """As ``async_task`` and the ORM broker do in 1.11.1."""
        for number in numbers:
            package = {"id": "f" * 32, "name": "yellow-one", "func": NOTHING, "args": (number,), "kwargs": {}}
            package |= {"started": timezone.now()} | columns
            payload = signing.dumps(package, salt=salt, compress=compress, serializer=PickleSerializer)
            self.store(payload)

    def store(self, payload: str) -> None:
        row = OrmQ.objects.create(key="default", payload=payload, lock=timezone.now())
        wait_until(lambda: clock("default") > row.lock, "the database's clock, which may be coarser")

    def claim(self) -> Any:
        """As the ORM broker's ``dequeue`` does in 1.11.1."""
        for task in OrmQ.objects.filter(lock__lt=timezone.now())[:1]:
            later = timezone.now() + timedelta(seconds=60)
            if OrmQ.objects.filter(id=task.id, lock=task.lock).update(lock=later):
                return task.pk
        return None

    def waiting(self) -> set[str]:
        return set(map(str, OrmQ.objects.filter(lock__lte=timezone.now()).values_list("pk", flat=True)))


class DjangoDBQueue(Other):
    name = "django-db-queue"
    table = Job

    def enqueue(self, numbers: Iterable[int], **columns: Any) -> None:
        for number in numbers:
            row = {"name": "report", "next_task": "shop.jobs.report", "queue_name": "reports"}
            Job.objects.create(**row | {"workspace": {"n": number}} | columns)

    def claim(self) -> Any:
        """As its worker's ``_process_job`` does in 3.3.0."""
        with transaction.atomic():
            due = Q(run_after__isnull=True) | Q(run_after__lte=timezone.now())
            found = Job.objects.select_for_update().filter(due, state__in=("READY", "NEW")).first()
            if found is None:
                return None
            found.state = "PROCESSING"
            found.save()
        return found.pk

    def waiting(self) -> set[str]:
        return set(map(str, Job.objects.filter(state__in=("READY", "NEW")).values_list("pk", flat=True)))

    def number(self, payload: Any) -> int:
        return int(payload["workspace"]["n"])


def imported(name: str) -> list[str]:
    """The primary keys of the rows that messages say they come from."""
    headers = (message.headers["dbqueue.imported_from"] for message in Message.objects.all())
    return sorted(key for source, key in (each.split(" ") for each in headers) if source == name)


OTHERS: dict[str, Other] = {other.name: other for other in (DjangoTasksDB(), DjangoOx(), DjangoQ2(), DjangoDBQueue())}


def imported_from(other: Other, *arguments: str) -> Any:
    """What a run of ``queue_import`` reports."""
    return run("queue_import", other.name, "--yes", "--json", *arguments).document


def assert_it_stays(other: Other, why: str, **columns: Any) -> None:
    """Of two rows the one that can't be a message stays, with its reason."""
    other.enqueue([0], **columns)  # type: ignore[call-arg]
    other.enqueue([1])
    ended = run("queue_import", other.name, "--yes", "--json")
    [reason] = ended.document["reasons"]
    assert (ended.code, ended.document["taken"], ended.document["left_alone"]) == (1, 1, 1)
    assert why in reason["why"]
    table = other.table._base_manager
    assert reason["row"] in set(map(str, table.values_list("pk", flat=True)))
