"""A job that was told to stop says so, whatever else its way out raises."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

from django_dbqueue.spark.jobs.job_execution import Terminated, stop_signals

RAISED = {signal.SIGTERM: Terminated, signal.SIGINT: KeyboardInterrupt}


def fail_on_the_way_out(number: signal.Signals) -> None:
    try:
        signal.raise_signal(number)
    except BaseException as error:
        raise RuntimeError("an answer from the JVM that belongs to the call before") from error


def clean_up_under_signals(cleaned_up: list[str]) -> None:
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        cleaned_up.append("all")


@pytest.mark.parametrize("number", RAISED)
def test_what_the_way_out_raises_does_not_hide_the_signal(number: signal.Signals) -> None:
    before = [signal.signal(each, signal.default_int_handler) for each in RAISED]
    try:
        with pytest.raises(RAISED[number]) as raised, stop_signals():
            fail_on_the_way_out(number)
        assert isinstance(raised.value.__cause__, RuntimeError)
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        for each, handler in zip(RAISED, before, strict=True):
            signal.signal(each, handler)


def test_a_second_signal_does_not_disturb_the_cleanup() -> None:
    cleaned_up: list[str] = []
    with pytest.raises(Terminated), stop_signals():
        clean_up_under_signals(cleaned_up)
    assert cleaned_up == ["all"]


def test_a_signal_that_comes_while_a_process_is_started_waits_until_its_starter_knows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    execute = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def execute_and_signal(*args: Any) -> None:
        execute(*args)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess.Popen, "_execute_child", execute_and_signal)

    def start_and_wait() -> None:
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        signal.pause()

    with pytest.raises(Terminated), stop_signals():
        start_and_wait()
    assert len(started) == 1
    started[0].communicate()


def test_an_error_without_a_signal_is_what_it_was() -> None:
    with pytest.raises(RuntimeError), stop_signals():
        raise RuntimeError
