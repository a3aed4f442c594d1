from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.servers.private import PrivateServer, needed_program


class Postgres(PrivateServer):
    """Durable by its defaults."""

    name = "postgres"
    accounts = ("postgres",)
    stop_signal = signal.SIGINT  # "fast": ends sessions instead of waiting for them

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def set_up_command(self) -> list[str]:
        initdb = needed_program("initdb", package="postgresql")
        return [
            initdb,
            f"--pgdata={self.data}",
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
        ]

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.home,
            "max_connections": 300,
            "shared_buffers": "128MB",
            "max_wal_size": "512MB",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [needed_program("postgres", package="postgresql"), "-D", str(self.data), *options]

    def kill(self) -> None:
        """With its backends, which would otherwise send what they have, and live until they look for it."""
        assert self.process is not None
        pid = self.process.pid
        backends = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        super().kill()
        for backend in backends:
            with suppress(ProcessLookupError):
                os.kill(int(backend), signal.SIGKILL)
