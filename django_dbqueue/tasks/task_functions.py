"""Which functions can be tasks: a worker finds a task by the path of its function, in a process of its own."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

from django_dbqueue.tasks.compat import InvalidTask, Task

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyTask


def check_function(task: AnyTask) -> None:
    """Raise InvalidTask if no worker can find the task's function, or run it."""
    function = task.func
    if not function.__qualname__.isidentifier():
        raise InvalidTask(
            f"{task.module_path} can't be a task: a worker finds a task by the name of its function in its module. "
            "Write it with def, outside of classes and functions."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTask(f"{task.module_path} contains a yield: calling it runs none of it. Remove the yield.")


def check_is_found(task: AnyTask) -> None:
    """Raise InvalidTask if what the path names, in this process, is no task that a worker could find there too."""
    function = task.func
    if function.__module__ == "__main__":
        raise InvalidTask(
            f"{task.module_path} is defined in the program that was started, which is another one in a worker. Move it "
            "to a module that both import, such as the tasks.py of an app."
        )
    found = getattr(sys.modules.get(function.__module__), function.__name__, None)
    if not isinstance(found, Task):
        raise InvalidTask(
            f"{task.module_path} is {'not there' if found is None else f'a {type(found).__name__}'}, not a task, and a "
            "worker finds a task by this path. Give the task the name of its function, as @task does."
        )
