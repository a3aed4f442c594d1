"""A virtual environment for each peer, made when it is first asked for, and again when its pins or Python change."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.private import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
_HOME = ROOT / ".venv-bench"
_REQUIREMENTS = Path(__file__).with_name("requirements")
_STAMP = "installed"


def python_of(peer: str) -> Path:
    """The interpreter that has the peer's packages. Raises ServerError with what helps when it can't be had."""
    pins = _REQUIREMENTS / f"{peer}.txt"
    place = _HOME / peer
    wanted = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()
    with _alone(peer):
        stamp = place / _STAMP
        if not stamp.exists() or stamp.read_text() != wanted:
            print(f"{peer}: installing what {pins.relative_to(ROOT)} pins", file=sys.stderr, flush=True)
            shutil.rmtree(place, ignore_errors=True)
            _run(peer, [sys.executable, "-m", "venv", str(place)], "On Debian: apt-get install python3-venv")
            pip = [str(place / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            _run(peer, [*pip, "--requirement", str(pins)], "Is the package index within reach?")
            stamp.write_text(wanted)
    return place / "bin/python"


@contextmanager
def _alone(peer: str) -> Iterator[None]:
    """Another run in the same checkout waits until this one has installed."""
    _HOME.mkdir(exist_ok=True)
    with (_HOME / f"{peer}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(peer: str, command: list[str], hint: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        raise ServerError(f"{peer} could not be installed. {hint}\n{' '.join(command)} said:\n{said}")
