from __future__ import annotations

import signal
import subprocess

from tests.servers.private import PrivateServer, needed_program


class Redis(PrivateServer):
    """As durable as is usual with it: a log of all commands, synced once a second."""

    name = "redis"
    accounts = ("redis",)
    stop_signal = signal.SIGTERM
    package = "redis-server"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @classmethod
    def version(cls) -> str:
        command = [needed_program("redis-server", package=cls.package), "--version"]
        words = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return "Redis " + words.partition("v=")[2].split()[0]

    def set_up_command(self) -> list[str]:
        """There is nothing to set up but to see that it is there."""
        return [needed_program("redis-server", package=self.package), "--version"]

    def command(self) -> list[str]:
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.home,
            "appendonly": "yes",
            "appendfsync": "everysec",
        }
        options = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        return [needed_program("redis-server", package=self.package), *options]
