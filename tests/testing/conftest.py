from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from django_dbqueue import consumer
from tests.factories import QUEUE


class Consumes(Protocol):
    def __call__(self, handler: Callable[[Any], Any], queue: str = QUEUE, **options: Any) -> None: ...


@pytest.fixture
def consumes(registry: dict[str, Any]) -> Consumes:
    """Registers consumers for one test; there are no others."""

    def register(handler: Callable[[Any], Any], queue: str = QUEUE, **options: Any) -> None:
        consumer(queue, **options)(handler)

    return register


@pytest.fixture(
    params=[
        pytest.param("TestCase", marks=pytest.mark.django_db),
        pytest.param("TransactionTestCase", marks=pytest.mark.django_db(transaction=True)),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    """Whose manners the test has: everything in one transaction, or real commits."""
    return str(request.param)
