"""``queue_edit``: sent anew with another payload, or nothing is written."""

from __future__ import annotations

import pytest

from django_dbqueue.models import Message, MessageEvent
from tests.commands.running import Ended, run
from tests.factories import dead, held, row, rows, waiting

pytestmark = pytest.mark.django_db


def edit(*arguments: str) -> Ended:
    return run("queue_edit", *arguments, "--by", "ann")


@pytest.mark.parametrize(
    ("arguments", "payload"),
    [(['{"n": 2}'], {"n": 2}), (["as it stands: {", "--text"], "as it stands: {"), (["YWI=", "--base64"], b"ab")],
)
def test_the_new_one_has_the_payload_that_was_given(arguments: list[str], payload: object) -> None:
    old = dead(key="k")
    ended = edit(str(old.pk), *arguments, "--yes", "--json")
    new = Message.objects.get(pk=ended.document["id"])
    assert (ended.code, ended.document["instead_of"], new.payload, new.key) == (0, old.pk, payload, "k")
    assert "by ann with an edited payload" in row(old)["error"]
    assert MessageEvent.objects.get(kind="resent").actor == "ann"


def test_nothing_is_written_where_it_can_not_be_sent() -> None:
    claimed, old = held(), dead(key="k")
    waiting(key="k")
    before = rows()
    for number, payload, code, text in (
        (claimed.pk, "1", 1, "release it first"),
        (old.pk, "1", 1, "has a live message with key 'k'"),
        (old.pk, "{", 2, "not JSON"),
        (10**15, "1", 3, "There is no message"),
    ):
        ended = edit(str(number), payload, "--yes")
        assert (ended.code, ended.out) == (code, ""), ended.err
        assert text in ended.err
    assert edit(str(old.pk), "1").code == 2, "nobody could be asked"
    assert rows() == before
