"""The headers of a message that is a task; importable where there is no ``django.tasks``."""

from __future__ import annotations

from typing import Final

TASK: Final = "dbqueue.task"
"""The header that names the task: its module and its name there."""
BACKEND: Final = "dbqueue.backend"
"""The alias of its backend, unless it is ``default``."""
EXPIRES: Final = "dbqueue.expires"
"""When it is too late to run it, in ISO 8601."""
DEFAULT: Final = "default"
