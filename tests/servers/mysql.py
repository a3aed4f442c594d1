from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.private import NoServer, PrivateServer, ServerError, find_program, needed_program
from tests.servers.version import server_version

_TOOL = Path(__file__).resolve().parents[2] / "../shared/tools/mysql-server"


class MySQL(PrivateServer):
    """The real one, from a `mysqld` on the PATH; its defaults are durable and log rows."""

    name = "mysql"
    accounts = ("mysql",)
    stop_signal = signal.SIGTERM

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/mysql"

    def set_up_command(self) -> list[str]:
        return [self._mysqld(), "--no-defaults", "--initialize-insecure", f"--datadir={self.data}"]

    def command(self) -> list[str]:
        return [
            self._mysqld(),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={self.home}",
            f"--socket={self.home}/sock",
            f"--pid-file={self.home}/pid",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--mysqlx=OFF",
            "--secure-file-priv=",
            "--max-connections=300",
            "--innodb-buffer-pool-size=256M",
            "--innodb-flush-method=fsync",  # memory file systems have no O_DIRECT
            "--max-binlog-size=64M",
        ]

    @staticmethod
    def _mysqld() -> str:
        return needed_program("mysqld", package="mysql-server-core")

    @staticmethod
    def is_installed() -> bool:
        """A `mysqld` alone proves nothing: Debian's MariaDB brings one too. That one says its name."""
        program = find_program("mysqld")
        if program is None:
            return False
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        return "Ver" in version and "MariaDB" not in version


@contextmanager
def mysql_url(parent: Path | None = None) -> Iterator[str]:
    """A real MySQL: one that is given, one of our own (in a directory below ``parent``), or the project's tool's.

    The tool's server serves other sessions too, and is left running.
    """
    if url := os.environ.get("DBQUEUE_TEST_MYSQL_URL"):
        yield _real(url)
    elif MySQL.is_installed():
        with MySQL.running(parent) as server:
            yield _real(server.url)
    elif _TOOL.exists():
        yield _real(_start_by_tool())
    else:
        raise NoServer(
            "no MySQL is here. Set DBQUEUE_TEST_MYSQL_URL=mysql://root:password@127.0.0.1:3306/mysql, put a "
            "real mysqld on the PATH, or start the one of docker-compose.yml."
        )


def _start_by_tool() -> str:
    done = subprocess.run([_TOOL, "start"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ServerError(f"`{_TOOL.name} start` failed with exit code {done.returncode}; see its output above.")
    return done.stdout.strip().splitlines()[-1]


def _real(url: str) -> str:
    try:
        version = server_version(url)
    except Exception as error:
        raise ServerError(f"the MySQL that was named does not answer: {error}") from error
    if "MariaDB" in version:
        raise ServerError(f"the server that was named as MySQL is a MariaDB ({version}).")
    return url
