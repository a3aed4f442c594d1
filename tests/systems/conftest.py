from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.conftest import start_guardian, start_worker
from tests.systems.articles import present

__all__ = ["start_guardian", "start_worker"]


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Iterator[None]:
    """The table of the module's article."""
    with present(request.module.article.TABLE, request.module.article.CREATE):
        yield
