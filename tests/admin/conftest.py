from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_dbqueue.models import Message
from django_dbqueue.models.fields import DbNow
from tests.left_out import BROWSER

if BROWSER.is_here():
    from tests.admin.browser import driver, lawless_page, page  # noqa: F401 - fixtures

LIST = "admin:django_dbqueue_message_changelist"


def url(view: str, *args: Any, model: str = "message") -> str:
    return reverse(f"admin:django_dbqueue_{model}_{view}", args=args)


def make_ready(queue: str = "q", **options: Any) -> Message:
    message = Message.objects.enqueue({"n": 1}, queue=queue, **options)
    return Message.objects.get(pk=message.pk)


def make_delayed(queue: str = "q", **options: Any) -> Message:
    return make_ready(queue, delay=3600, **options)


def make_stuck(queue: str = "q", **options: Any) -> Message:
    """A message whose lease was over at once."""
    Message.objects.enqueue({"n": 1}, queue=queue, **options)
    (message,) = Message.objects.claim(1, queue=queue, lease=60)
    Message.objects.filter(pk=message.pk).update(available_at=DbNow())
    return Message.objects.get(pk=message.pk)


def make_dead(queue: str = "q", reason: str = "no such user", **options: Any) -> Message:
    message = Message.objects.enqueue({"n": 1}, queue=queue, **options)
    Message.objects.filter(pk=message.pk).reject_waiting(reason)
    return Message.objects.get(pk=message.pk)


def make_done(queue: str = "q", **options: Any) -> Message:
    message = Message.objects.enqueue({"n": 1}, queue=queue, **options)
    (claimed,) = Message.objects.claim(1, queue=queue)
    assert claimed.pk == message.pk
    claimed.ack()
    return Message.objects.get(pk=message.pk)


@pytest.fixture
def operator(db: None) -> User:
    return User.objects.create_superuser("op", password="op")


@pytest.fixture
def browser(operator: User) -> Client:
    """A client that may do everything."""
    client = Client()
    client.force_login(operator)
    return client


@pytest.fixture
def client_with(db: None) -> Callable[..., Client]:
    """Clients of staff members who have these permissions and no other."""

    def client_with(*codenames: str) -> Client:
        user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
        found = Permission.objects.filter(content_type__app_label="django_dbqueue", codename__in=codenames)
        assert {permission.codename for permission in found} == set(codenames)
        user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        return client

    return client_with
