"""What stands where: the lines, the tickets and the followers of groups."""

from __future__ import annotations

from django_dbqueue.models import Line, Ticket


def line() -> list[int]:
    """Who waits in a line."""
    return list(Line.objects.filter(lane__gte=0).order_by("message_id").values_list("message_id", flat=True))


def followers() -> list[int]:
    """Who was taken along by a worker."""
    return list(Line.objects.filter(lane__lt=0).order_by("message_id").values_list("message_id", flat=True))


def tickets() -> list[int]:
    """Who has a ticket."""
    return list(Ticket.objects.order_by("ticket").values_list("message_id", flat=True))


def nothing_is_left() -> bool:
    return not Line.objects.exists() and not Ticket.objects.exists()
