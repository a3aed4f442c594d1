"""The seam: what an instrument does to messages, and what it can't do to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from django_dbqueue import Envelope, hooks
from django_dbqueue.hooks import Instrument
from django_dbqueue.models import Message

pytestmark = pytest.mark.django_db(transaction=True)


class Named(Instrument):
    """It notes what passes, and adds a header."""

    def __init__(self, name: str, heard: list[str]) -> None:
        self.name = name
        self.heard = heard

    def send(self, envelope: Any, queue: str, using: str, store: Callable[[Any], Any]) -> Any:
        self.heard.append(f"{self.name} sends to {queue} of {using}")
        headers = {**(envelope.headers or {}), self.name: len(self.heard)}
        return store(Envelope(envelope.payload, headers=headers))

    def settle(self, verb: str, queue: str, using: str, subjects: Sequence[Any], work: Callable[[], Any]) -> Any:
        self.heard.append(f"{self.name} before {verb}")
        try:
            return work()
        finally:
            self.heard.append(f"{self.name} after {verb}")


class Broken(Instrument):
    """It fails wherever the worker asks it."""

    def begin(self, deliveries: Sequence[Any]) -> Any:
        raise RuntimeError("begin")

    def acked(self, deliveries: Sequence[Any], using: str, seconds: float) -> None:
        raise RuntimeError("acked")

    def flush(self, seconds: float) -> None:
        raise RuntimeError("flush")


@pytest.fixture
def install() -> Iterator[Callable[[Instrument], None]]:
    before = hooks.installed()
    yield hooks.add
    for each in hooks.installed():
        if each not in before:
            hooks.remove(each)


def test_nothing_watches_unless_something_is_installed() -> None:
    assert hooks.active is None
    assert hooks.begin([object()]) is None


def test_several_instruments_stand_one_around_the_other(install: Callable[[Instrument], None]) -> None:
    heard: list[str] = []
    install(Named("first", heard))
    install(Named("second", heard))
    message = Message.objects.enqueue({}, queue="q")
    assert message.headers == {"first": 1, "second": 2}
    [claimed] = Message.objects.claim(queue="q")
    claimed.ack()
    assert heard == [
        "first sends to q of default",
        "second sends to q of default",
        "first before ack",
        "second before ack",
        "second after ack",
        "first after ack",
    ]


def test_an_instrument_that_fails_does_not_keep_another_one_from_the_end(
    install: Callable[[Instrument], None], caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    class Watching(Instrument):
        def begin(self, deliveries: Sequence[Any]) -> Any:
            heard.append("begin")
            return self

        def end(self, ended: Sequence[tuple[Any, Any]]) -> None:
            heard.append("end")

    install(Watching())
    install(Broken())
    hooks.end(hooks.begin([object()]), [])
    hooks.flush()
    assert heard == ["begin", "end"]
    assert len(caplog.records) == 2


def test_an_instrument_that_fails_is_logged_and_stops_nothing(
    install: Callable[[Instrument], None], caplog: pytest.LogCaptureFixture
) -> None:
    install(Broken())
    with caplog.at_level(logging.ERROR, "django_dbqueue"):
        assert hooks.begin([object()]) is None
        hooks.acked([object()], "default", 0.1)
        hooks.flush()
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["begin", "acked", "flush"]
