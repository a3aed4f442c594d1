"""Settings of a whole server: no test looks at them while another, in whatever process, has spoiled one."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from django.db.backends.base.base import BaseDatabaseWrapper


class WholeServer:
    """Shared with all who look, and one's own while it says something else."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    @classmethod
    @contextmanager
    def shared(cls) -> Iterator[WholeServer]:
        """Keep it as it is for the block."""
        url = os.environ.get("DBQUEUE_TEST_URL", "")
        name = f"dbqueue-test-server-{hashlib.sha256(url.encode()).hexdigest()[:16]}.lock"
        with (Path(tempfile.gettempdir()) / name).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield cls(file)

    @contextmanager
    def saying(self, session: BaseDatabaseWrapper, name: str, value: int) -> Iterator[None]:
        """Set a global variable of MySQL or MariaDB for the block."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with session.cursor() as cursor:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            [before] = cursor.fetchone()
            cursor.execute(f"SET GLOBAL {name} = {value}")
            try:
                yield
            finally:
                cursor.execute(f"SET GLOBAL {name} = {before}")
                fcntl.flock(self._file, fcntl.LOCK_SH)
