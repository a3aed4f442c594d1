"""Where in the code a handler is, the outermost call first: in a thread, or in what its coroutine awaits.

The thread in which an async handler's event loop runs only says that the loop waits.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any


def frames_of(thread: int | None, task: asyncio.Task[Any] | None) -> list[FrameType]:
    """Return the frames of a handler: those of its task if it is a coroutine, else those of its thread."""
    if task is not None:
        return _frames_of_task(task)
    frame = sys._current_frames().get(thread or 0)
    return [] if frame is None else _from_the_outermost(frame)


def as_text(frames: list[FrameType]) -> str:
    """Return them as a traceback shows them, without variables."""
    return "".join(traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames).format())


def place_of(frames: list[FrameType]) -> str:
    """Return the innermost file and line."""
    return f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "an unknown place"


def _frames_of_task(task: asyncio.Task[Any]) -> list[FrameType]:
    """Return where a task stands, and behind that where each task stands for which it waits."""
    found: list[FrameType] = []
    seen: list[object] = []
    waits_for: object = task
    while isinstance(waits_for, asyncio.Task) and waits_for not in seen:  # two may wait for one another
        seen.append(waits_for)
        found += _awaited_by(waits_for.get_coro())
        waits_for = getattr(waits_for, "_fut_waiter", None)
    if found and (now_running := _running_in(found[-1])):
        return found[:-1] + now_running
    return found


def _awaited_by(awaits: Any) -> Iterator[FrameType]:
    """Yield the frames of coroutines, and of generators, each of which awaits the next."""
    while awaits is not None:
        frame = getattr(awaits, "cr_frame", None) or getattr(awaits, "gi_frame", None)
        if frame is None:  # it has ended, or is written in C
            return
        yield frame
        awaits = getattr(awaits, "cr_await", None) or getattr(awaits, "gi_yieldfrom", None)


def _running_in(frame: FrameType) -> list[FrameType]:
    """Return a frame and what it calls, if a thread runs it now."""
    for innermost in sys._current_frames().values():
        frames = _from_the_outermost(innermost)
        if frame in frames:
            return frames[frames.index(frame) :]
    return []


def _from_the_outermost(innermost: FrameType) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_stack(innermost)][::-1]
