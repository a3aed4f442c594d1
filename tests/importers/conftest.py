from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.importers.layouts import created
from tests.importers.others import OTHERS, Other
from tests.tasks.conftest import _tasks as _tasks
from tests.tasks.conftest import worker_env as worker_env


@pytest.fixture(params=sorted(OTHERS))
def other(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[Other]:
    """Each other queue, with an empty table."""
    found = OTHERS[request.param]
    with created(found.table, *found.dependents):
        yield found


@pytest.fixture
def its_table(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[None]:
    """The table of the module's OTHER."""
    with created(request.module.OTHER.table, *request.module.OTHER.dependents):
        yield
