"""Times in the admin are UTC where the project's own are local, and the pages say so."""

from __future__ import annotations

import pytest
from django.test import Client, override_settings

from django_dbqueue.models import Message
from tests.admin.conftest import url

pytestmark = pytest.mark.django_db
MODELS = ("message", "archivedmessage", "queue", "worker", "failure", "bulkoperation", "schedule", "stream")


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_a_page_shows_that_its_times_are_utc_where_others_are_local(
    admin_client: Client, model: str, use_tz: bool
) -> None:
    with override_settings(USE_TZ=use_tz, TIME_ZONE="America/New_York"):
        page = admin_client.get(url("changelist", model=model)).content.decode()
    assert ("times in UTC" in page) is not use_tz


@pytest.mark.parametrize("use_tz", [True, False])
def test_a_messages_page_shows_it_next_to_its_name(admin_client: Client, use_tz: bool) -> None:
    message = Message.objects.enqueue({"a": 1}, queue="q")
    with override_settings(USE_TZ=use_tz, TIME_ZONE="America/New_York"):
        page = admin_client.get(url("change", message.pk)).content.decode()
    assert (f"{message} (times in UTC)" in page) is not use_tz
