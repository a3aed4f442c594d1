"""Handlers' troubles, and what is left of what they did."""

from __future__ import annotations

from django_dbqueue.models import Queue


class Trouble(Exception):
    pass


def effects() -> list[str]:
    return sorted(Queue.objects.values_list("name", flat=True))


def insert_twice() -> None:
    Queue.objects.create(name="twice")
    Queue.objects.create(name="twice")
