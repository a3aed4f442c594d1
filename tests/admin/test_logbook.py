"""The admin's log holds what an operator wrote, also where Django's table lacks characters that the queue's has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from django_dbqueue.admin import logbook
from django_dbqueue.models import Group, Queue
from tests.admin.confirmations import form_of
from tests.admin.conftest import url

REASON = "Ошибка \N{PILE OF POO} möwe"
WRITTEN = {
    "utf8mb4": REASON,
    "utf8mb3": r"Ошибка \U0001f4a9 möwe",
    "latin1": r"\u041e\u0448\u0438\u0431\u043a\u0430 \U0001f4a9 m\xf6we",
}


@pytest.mark.django_db
def test_what_was_done_with_one_row_and_with_several_is_noted() -> None:
    user = User.objects.create(username="olga")
    queues = [Queue(name="a"), Queue(name="b")]
    logbook.note(user, queues, CHANGE, REASON)
    logbook.note(user, [Group(queue="q", name="ключ")], CHANGE, "Paused.", object_id="q/ключ")
    entries = LogEntry.objects.order_by("pk").values_list("object_id", "change_message", "user__username")
    assert list(entries) == [("a", REASON, "olga"), ("b", REASON, "olga"), ("q/ключ", "Paused.", "olga")]


if settings.TEST_DATABASE in ("mysql", "mariadb"):

    @pytest.fixture
    def log_of(transactional_db: None) -> Iterator[Callable[[str], None]]:
        """Give the admin's log these characters, as a database gives them by default."""

        def convert(characters: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"ALTER TABLE django_admin_log CONVERT TO CHARACTER SET {characters}")

        LogEntry.objects.all().delete()
        yield convert
        LogEntry.objects.all().delete()
        convert("utf8mb4")

    @pytest.mark.parametrize("characters", WRITTEN)
    def test_a_queue_is_paused_with_any_reason_whatever_the_log_can_hold(
        log_of: Callable[[str], None], admin_client: Client, characters: str
    ) -> None:
        log_of(characters)
        Queue.objects.create(name="mails")
        form = form_of(admin_client.get(url("pause", "mails", model="queue")))
        assert admin_client.post(url("pause_many", model="queue"), form | {"reason": REASON}).status_code == 302
        assert Queue.objects.get().pause_reason == REASON
        assert WRITTEN[characters] in LogEntry.objects.get().change_message
