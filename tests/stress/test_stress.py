"""What runs under stress has less of the machine, is really frozen, and leaves nothing behind."""

from __future__ import annotations

import select
import subprocess
import sys
from subprocess import PIPE

import pytest

from tests.patience import patience
from tests.servers.lifeline import lives
from tests.stress.cgroups import CPU, FREEZER, Group

pytestmark = pytest.mark.once

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_a_group_gets_its_share_and_no_more() -> None:
    with Group(CPU) as group:
        group.limit(5)
        assert group.start([sys.executable, "-c", BUSY]).wait(patience(60)) == 0
        assert group.throttled() > 0


def test_what_is_frozen_does_nothing_until_it_is_thawed() -> None:
    with Group(FREEZER) as group, group.start(["cat"], stdin=PIPE, stdout=PIPE, bufsize=0) as echo:
        assert echo.stdin is not None
        assert echo.stdout is not None
        echo.stdin.write(b"before\n")
        assert echo.stdout.readline() == b"before\n"
        group.freeze()
        echo.stdin.write(b"frozen\n")
        assert select.select([echo.stdout], [], [], 0.2)[0] == []
        group.thaw()
        assert echo.stdout.readline() == b"frozen\n"
        echo.stdin.close()
        assert echo.wait(patience(60)) == 0


@pytest.mark.parametrize("how", [["share", "50"], ["frozen", "0.05", "0.1"]], ids=lambda how: how[0])
def test_a_command_ends_with_its_own_code_and_what_it_left_is_gone(how: list[str]) -> None:
    command = [sys.executable, "-m", "tests.stress", *how, "sh", "-c", "sleep 1000 & echo $!; exit 3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 3, done.stderr
    assert not lives(int(done.stdout.split()[0]))


def test_no_command_is_refused() -> None:
    command = [sys.executable, "-m", "tests.stress", "share", "50"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "which command?" in done.stderr
