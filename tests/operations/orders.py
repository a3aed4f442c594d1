"""Operations as a page orders them, and their steps as a worker takes them, in the test's own process."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db import transaction

from django_dbqueue.models import BulkOperation, Message
from django_dbqueue.operations import bulk
from django_dbqueue.operations.bulk import Selection
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.worker.bulk_steps import take_step
from tests.factories import QUEUE

OPERATIONS = "dbqueue.operations"


def operator(*codenames: str) -> User:
    """A person who may do this, or everything."""
    if not codenames:
        return User.objects.create_superuser(f"op-{User.objects.count()}")
    user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


def select(state: str = "dead", queue: str | None = QUEUE, **more: Any) -> Selection:
    return Selection.now(DjangoSession("default"), state=state, queue=queue, **more)


def order(verb: str = "drop", selection: Selection | None = None, *, user: User | None = None) -> BulkOperation:
    selection = selection or select()
    count = bulk.count(DjangoSession("default"), selection)
    ticket, user = secrets.token_hex(16), user or operator()
    operation = BulkOperation.objects.order(
        verb, selection, expected=int(count), reason="a bad deploy", user=user, ticket=ticket
    )
    assert operation is not None
    return operation


def next_step() -> bool:
    """Take one step as a worker does; False where there is none."""
    messages = Message.objects.claim(1, queue=OPERATIONS)
    for message in messages:
        take_step(message)
    return bool(messages)


def go_on(operation: BulkOperation) -> BulkOperation:
    """Take all steps that there are, and return the operation as it stands then."""
    while next_step():
        pass
    operation.refresh_from_db()
    return operation


def stop(operation: BulkOperation) -> None:
    with transaction.atomic():
        BulkOperation.objects.locked(operation.pk, using="default").end("stopped")  # type: ignore[union-attr]


def counts(operation: BulkOperation) -> tuple[str, int, int]:
    operation.refresh_from_db()
    return operation.state, operation.moved, operation.left_alone
