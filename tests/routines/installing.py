"""Installing by the command, and what then stands in the database."""

from __future__ import annotations

import io

from django.core.management import call_command

from django_dbqueue.routines import installation
from django_dbqueue.routines.existing_routines import installed as all_installed
from django_dbqueue.sessions.django_session import DjangoSession


def command(action: str) -> list[str]:
    output = io.StringIO()
    call_command("queue_routines", action, stdout=output)
    return output.getvalue().splitlines()


def installed() -> set[str]:
    return {one.name for one in all_installed("default")}


def everything() -> set[str]:
    return {routine.name for routine in installation.wanted_routines(DjangoSession("default"))}
