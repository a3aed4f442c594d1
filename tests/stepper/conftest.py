from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.sessions.django_session import DjangoSession
from tests.patience import patience
from tests.stepper import exploring
from tests.stepper.exploring import Explored
from tests.stepper.scene import Scene

MORE = {"usual": 0, "nightly": 1}
"""How many preemptions are allowed beyond a model's own bound."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--order", help="play this order alone of the test that is named, as its failure printed it")


@pytest.fixture(params=["usual", pytest.param("nightly", marks=pytest.mark.nightly)])
def explore(
    request: pytest.FixtureRequest, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Explored]:
    """``exploring.explore`` with the bound of this run, and with the order of the option ``--order``.

    Each step of another takes time of the one that is held up, and is no reason for it to give up.
    """
    outermost: Any = DjangoSession.outermost
    monkeypatch.setitem(outermost.__kwdefaults__, "within", patience(60))
    order = request.config.getoption("--order", default=None)

    def run(world: Callable[[], Scene], *, preemptions: int = 2, **bounds: Any) -> Explored:
        explored = exploring.explore(world, preemptions=preemptions + MORE[request.param], order=order, **bounds)
        print(explored)
        if order is not None:
            pytest.skip(f"the order holds, and no other was played: {explored}")
        return explored

    return run
