"""A server process of our own: set up, started, asked whether it answers, and stopped."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from tests.patience import patience
from tests.servers.directory import own_directory
from tests.servers.lifeline import ends_with_its_starter
from tests.servers.version import server_version

_START_SECONDS = patience(90)
_STOP_SECONDS = patience(60)
_PORT_IN_USE = "Address already in use"
_FIRST_PORT = 10_000


class ServerError(Exception):
    """A server can't be had; the text says why, and what helps."""


class NoServer(ServerError):
    """There is none here, as against one that fails."""


class PrivateServer(ABC):
    """Lives in `home`, listens on a free loopback port, and keeps both over a restart."""

    name: ClassVar[str]
    accounts: ClassVar[Sequence[str]]  # whom a root session becomes: the first that exists
    stop_signal: ClassVar[signal.Signals]

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._has_answered = False
        self._account = _account(self.accounts)
        if self._account:
            os.chown(home, self._account.pw_uid, self._account.pw_gid)

    @classmethod
    @contextmanager
    def running(cls, parent: Path | None = None) -> Iterator[PrivateServer]:
        """One whose data lies below `parent`; else in memory if there is room."""
        with own_directory(cls.name, parent) as home:
            server = cls(home)
            try:
                server._run_to_end(server.set_up_command())
                server.start()
                yield server
            finally:
                server.stop()

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def set_up_command(self) -> list[str]: ...

    @abstractmethod
    def command(self) -> list[str]: ...

    def start(self) -> None:
        """Start it, and wait until it answers; on another port, once, if somebody took this one before it did."""
        try:
            self._start()
        except ServerError:
            if self._has_answered or _PORT_IN_USE not in self._log_tail():
                raise
            self.port = free_port()
            self._start()
        self._has_answered = True  # from now on others know its port

    def _start(self) -> None:
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._as_account()
            )
        end = time.monotonic() + _START_SECONDS
        answer = "nothing yet"
        while time.monotonic() < end and self.process.poll() is None:
            try:
                server_version(self.url)
                return
            except ImportError:
                raise
            except Exception as error:  # each driver has its own word for "not yet"
                answer = str(error)
            time.sleep(0.1)
        self.stop()
        raise ServerError(f"{self.name} did not start. It answered: {answer}\nIts log ends:\n{self._log_tail()}")

    def stop(self) -> None:
        self._end(self.stop_signal)

    def kill(self) -> None:
        """As a crash would end it; `start` recovers what was committed."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _run_to_end(self, command: list[str]) -> None:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, **self._as_account())
        if done.returncode:
            output = (done.stdout + done.stderr).decode(errors="replace")
            raise ServerError(f"{self.name} could not be set up: {command[0]} said\n{output[-3000:]}")

    def _as_account(self) -> dict[str, object]:
        """A process group of its own, so that Ctrl-C reaches the tests first. No session: among these Linux shares out
        the processors, and a server is to have its part of what the tests have."""
        options: dict[str, object] = {
            "cwd": self.home,
            "env": os.environ | {"HOME": str(self.home), "TMPDIR": str(self.home)},
            "process_group": 0,
            "preexec_fn": ends_with_its_starter(self.stop_signal),
        }
        if self._account:
            options |= {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        return options

    def _log_tail(self) -> str:
        return (self.home / "server.log").read_text(errors="replace")[-3000:]


def find_program(*names: str) -> str | None:
    """The first that is on the PATH, or where Debian hides servers from it (newest PostgreSQL first)."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    hidden = os.pathsep.join([*map(str, versions), "/usr/local/sbin", "/usr/sbin", "/sbin"])
    for name in names:
        if found := shutil.which(name) or shutil.which(name, path=hidden):
            return found
    return None


def needed_program(*names: str, package: str) -> str:
    if found := find_program(*names):
        return found
    raise NoServer(f"{names[0]} is not installed. On Debian: apt-get install {package}")


def free_port() -> int:
    """One that the system gives to nobody who doesn't ask for it by its number.

    Seconds pass until a server listens there, again at each restart, and meanwhile others start who take any port.
    """
    below = first_ephemeral_port() - _FIRST_PORT
    while True:
        port = _FIRST_PORT + secrets.randbelow(below) if below > 0 else 0
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])


def first_ephemeral_port() -> int:
    """The lowest port that the system gives away."""
    ports = Path("/proc/sys/net/ipv4/ip_local_port_range")
    return int(ports.read_text().split()[0]) if ports.exists() else 32_768


def _account(names: Sequence[str]) -> pwd.struct_passwd | None:
    """Database servers refuse to be root."""
    if os.getuid() != 0:
        return None
    for name in (*names, "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerError(f"root needs an account to run servers as, and none of {', '.join(names)}, nobody exists.")
