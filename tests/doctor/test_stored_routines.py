"""What the doctor says of stored routines: whether they are those of this version and of these settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test import override_settings

from django_dbqueue.doctor.finding import Finding
from django_dbqueue.routines import installation
from django_dbqueue.routines.existing_routines import schema_of
from django_dbqueue.sessions.django_session import session_of
from tests.doctor.conftest import examined, run
from tests.factories import QUEUE

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _none_are_left(transactional_db: None) -> Iterator[None]:
    yield
    installation.uninstall(session_of("default"))


def install() -> None:
    installation.install(session_of("default"))


def found() -> Finding:
    [finding] = examined()["routines"]
    return finding


def test_where_none_are_installed_nothing_is_wrong() -> None:
    assert found().level == "ok"
    assert found().found.startswith("No stored routines")


def test_routines_of_other_settings_are_a_warning_until_they_are_installed_again() -> None:
    install()
    assert found().level == "ok"
    with override_settings(DBQUEUE={"QUEUES": {QUEUE: {"group_limit": 7}}}):
        assert found().level == "warning"
        assert "dbqueue_hand_over" in found().found
        assert "queue_routines install" in found().do
        install()
        assert found().level == "ok"
    assert found().level == "warning"


def test_one_that_is_missing_is_a_warning() -> None:
    install()
    if connection.vendor == "postgresql":
        run(connection, f"DROP FUNCTION {schema_of('default')}.kick_group(text, text)")
    else:
        run(connection, "DROP FUNCTION kick_group")
    assert found().level == "warning"
    assert "1 (kick_group)" in found().found
