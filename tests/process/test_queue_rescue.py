"""``manage.py queue_rescue`` as operators run it, on every database."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from django_dbqueue.models import Message
from tests.factories import held, stuck
from tests.process.conftest import wait_until
from tests.process.sessions import end_sessions, sessions

pytestmark = pytest.mark.django_db(transaction=True)


def rescue(*arguments: str) -> str:
    out = StringIO()
    call_command("queue_rescue", *arguments, stdout=out)
    return out.getvalue()


def test_a_single_run_rescues_what_has_an_expired_lease_and_shows_the_evidence() -> None:
    over = stuck()
    kept = held()
    output = rescue()
    assert f"1 message of tests rescued (lease over): {over.pk}" in output
    assert "1 message rescued." in output
    assert Message.objects.get(pk=over.pk).status == "n"
    assert Message.objects.get(pk=kept.pk).status == "run"
    assert "0 messages rescued." in rescue()


def test_json_is_one_object_a_line_and_a_message_whose_reads_are_spent_is_named() -> None:
    over = stuck(max_reads=1)
    events = {line["event"]: line for line in map(json.loads, rescue("--json").splitlines())}
    assert events["rescued"]["message_ids"] == [over.pk]
    assert (events["rescued"]["queue"], events["rescued"]["evidence"]) == ("tests", "lease over")
    assert events["died"]["message_id"] == over.pk
    assert events["ended"]["rescued"] == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--database", "defualt"), "Did you mean 'default'?"),
        (("--watch", "--interval", "0.01"), "an interval below 0.1 seconds"),
        (("--watch", "--interval", "soon"), "not a number of seconds"),
        (("--interval", "5"), "--interval needs --watch"),
    ],
)
def test_wrong_options_are_refused_with_a_sentence_and_nothing_is_done(arguments: tuple[str, ...], word: str) -> None:
    over = stuck()
    with pytest.raises(CommandError, match=word.replace("?", r"\?")):
        rescue(*arguments)
    assert Message.objects.get(pk=over.pk).status == "run"


def test_a_database_without_the_tables_is_named_with_what_to_do(start_guardian: Callable[..., Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_dbqueue_message RENAME TO hidden")
    try:
        for arguments in ((), ("--watch",)):
            guardian = start_guardian(*arguments)
            assert guardian.ended() == 1
            assert "manage.py migrate --database default" in guardian.output
            assert "Traceback" not in guardian.output
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE hidden RENAME TO django_dbqueue_message")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_guardian_process_watches_until_it_is_ordered_to_stop(
    start_guardian: Callable[..., Any], number: signal.Signals
) -> None:
    guardian = start_guardian("--watch", "--interval", "0.1")
    guardian.wait_for_output("Watching database default.")
    for _ in range(2):
        over = stuck()
        guardian.wait_for_output(f"rescued (lease over): {over.pk}")
        Message.objects.all().delete()
    guardian.signal(number)
    assert guardian.ended() == 0
    assert "2 messages rescued." in guardian.output
    assert "Traceback" not in guardian.output


def test_the_guardian_process_outlives_a_table_that_is_away_for_a_while(start_guardian: Callable[..., Any]) -> None:
    guardian = start_guardian("--watch", "--interval", "0.1")
    guardian.wait_for_output("Watching")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_dbqueue_message RENAME TO hidden")
        try:
            guardian.wait_for_output("Database trouble, retrying")
        finally:
            cursor.execute("ALTER TABLE hidden RENAME TO django_dbqueue_message")
    guardian.wait_for_output("The database answers again.")
    over = stuck()
    guardian.wait_for_output(f"rescued (lease over): {over.pk}")
    assert guardian.output.count("Database trouble") == 1


if settings.TEST_DATABASE == "sqlite":

    def test_on_sqlite_it_reports_that_only_leases_count() -> None:
        assert "Blind spot: SQLite has no sessions" in rescue()

else:

    def test_the_guardian_process_outlives_the_end_of_its_own_session(start_guardian: Callable[..., Any]) -> None:
        before = sessions()
        guardian = start_guardian("--watch", "--interval", "0.1")
        guardian.wait_for_output("Watching")
        end_sessions(wait_until(lambda: sessions() - before, "the guardian's session"))
        guardian.wait_for_output("The database answers again.")
        over = stuck()
        guardian.wait_for_output(f"rescued (lease over): {over.pk}")
