from __future__ import annotations

from typing import TYPE_CHECKING

from django_dbqueue import consumer
from tests.consumers_app.noting import note

if TYPE_CHECKING:
    from django_dbqueue.models import Message


@consumer("every-second", cron="* * * * * *", timezone="UTC")
def do_every_second(message: Message) -> None:
    note("called", message, payload=message.payload, headers=message.headers)
