"""An environment for each peer, made when it is first asked for, and again when its pins or its interpreter change."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.servers.private import ServerError, needed_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parents[3]
_HOME: Final = ROOT / ".venv-bench"
_HERE: Final = Path(__file__).parent
_STAMP: Final = "installed"
_PYTHON: Final = "DBQUEUE_BENCH_PYTHON"
_NEWEST: Final = 15


@dataclass(frozen=True, slots=True)
class Environment:
    """How a peer's processes are started: `child.py` or `child.mjs`, which has the peer's packages at hand."""

    command: tuple[str, ...]
    variables: dict[str, str]
    runtime: str
    """What runs them, with its version."""


def environment_of(peer: str, python: tuple[int, int]) -> Environment:
    """With this Python or a newer one. Raises ServerError with what helps when the peer can't be had."""
    pins = _HERE / "requirements" / f"{peer}.json"
    if pins.exists():
        return _of_node(peer, pins)
    return _of_python(peer, pins.with_suffix(".txt"), _interpreter(peer, python))


def pinned(peer: str) -> str:
    """The version of the peer's own package: of those that it needs, the one that its name begins with."""
    pins = _HERE / "requirements" / f"{peer}.json"
    if pins.exists():
        versions = json.loads(pins.read_text())["dependencies"]
    else:
        versions = dict(line.split("==") for line in pins.with_suffix(".txt").read_text().split())
    own = [each for each in versions if peer.replace("_", "-").startswith(each.partition("[")[0].lower())]
    return str(versions[max(own, key=len)])


def _of_python(peer: str, pins: Path, interpreter: str) -> Environment:
    def install(place: Path) -> None:
        _run(peer, [interpreter, "-m", "venv", str(place)], "On Debian: apt-get install python3-venv")
        pip = [str(place / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _run(peer, [*pip, "--requirement", str(pins)], "Can the package index be reached?")

    version = _version_of(interpreter)
    place = _installed(peer, pins, version, install)
    command = (str(place / "bin/python"), "-m", "benchmarks.queue.peers.child", peer)
    return Environment(command, {}, f"Python {'.'.join(map(str, version))}")


def _interpreter(peer: str, oldest: tuple[int, int]) -> str:
    """This one if it is new enough, else the first that is: of DBQUEUE_BENCH_PYTHON, of the PATH, of pyenv.

    DBQUEUE_BENCH_PYTHON names one, or several as the PATH does. One of pyenv needn't be switched on.
    """
    if sys.version_info >= oldest:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    programs: list[str | None] = [*os.environ.get(_PYTHON, "").split(os.pathsep)]
    for name in (f"python3.{minor}" for minor in range(oldest[1], _NEWEST + 1)):
        programs += [shutil.which(name), *map(str, sorted(pyenv.glob(f"versions/{name[6:]}.*[0-9]/bin/{name}")))]
    for program in filter(None, programs):
        if _version_of(program) >= oldest:
            return program
    raise ServerError(f"{peer} needs Python {oldest[0]}.{oldest[1]}, which {_PYTHON} can name.")


def _version_of(program: str) -> tuple[int, ...]:
    """() for what is no Python, or only pretends to have one."""
    script = "import sys; print(*sys.version_info[:3])"
    try:
        done = subprocess.run([program, "-c", script], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(map(int, done.stdout.split()))


def _of_node(peer: str, pins: Path) -> Environment:
    node, npm = (needed_program(program, package="nodejs npm") for program in ("node", "npm"))

    def install(place: Path) -> None:
        place.mkdir()
        shutil.copy(pins, place / "package.json")
        quietly = ["--no-audit", "--no-fund", "--loglevel=error", f"--prefix={place}"]
        _run(peer, [npm, "install", *quietly], "Can the package registry be reached?")

    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    place = _installed(peer, pins, version, install)
    modules = {"DBQUEUE_BENCH_MODULES": str(place / "package.json")}
    return Environment((node, str(_HERE / "child.mjs"), peer), modules, f"Node {version.strip().lstrip('v')}")


def _installed(peer: str, pins: Path, interpreter: object, install: Callable[[Path], None]) -> Path:
    """Another run in the same checkout waits until this one has installed."""
    place = _HOME / peer
    wanted = hashlib.sha256(pins.read_bytes() + str(interpreter).encode()).hexdigest()
    with _alone(peer):
        stamp = place / _STAMP
        if not stamp.exists() or stamp.read_text() != wanted:
            print(f"{peer}: installing what {pins.relative_to(ROOT)} pins", file=sys.stderr, flush=True)
            shutil.rmtree(place, ignore_errors=True)
            install(place)
            stamp.write_text(wanted)
    return place


@contextmanager
def _alone(peer: str) -> Iterator[None]:
    _HOME.mkdir(exist_ok=True)
    with (_HOME / f"{peer}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(peer: str, command: list[str], hint: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stdout + done.stderr)[-2000:]
        raise ServerError(f"{peer} could not be installed. {hint}\n{' '.join(command)} printed:\n{output}")
