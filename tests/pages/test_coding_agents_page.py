"""docs/how-to/coding-agents.md: its project is written, its tests run, and a worker drains its queues."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages.page_project import ON_SQLITE, ROOT, make_project, run_there, shell

PAGE = (ROOT / "docs" / "how-to" / "coding-agents.md").read_text()
FILES = dict(re.findall(r"In `shop/(\w+)\.py`[^\n]*:\n\n```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))

pytestmark = ON_SQLITE


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("agents")
    make_project(directory, "shop", FILES)
    return directory


def test_there_are_ten_rules_and_each_python_is_in_a_file() -> None:
    assert re.findall(r"^## (\d+)\. ", PAGE, re.MULTILINE) == [str(number) for number in range(1, 11)]
    assert len(FILES) == PAGE.count("```python")


def test_the_tests_that_the_page_shows_pass(project: Path) -> None:
    assert f"Ran {FILES['tests'].count('def test_')} tests" in run_there(project, "test", "shop")


def test_a_worker_books_once_and_an_order_that_rolls_back_leaves_no_message(project: Path) -> None:
    shell(
        project,
        "from django.db import transaction",
        "from shop.orders import place",
        "place('ann', 10), place('busy', 20), place('eve', -1)",
        "try:",
        "    with transaction.atomic():",
        "        place('nobody', 30)",
        "        raise KeyError",
        "except KeyError: pass",
    )
    run_there(project, "run_queue_worker", "--drain", "--verbosity", "0")
    printed = shell(
        project,
        "from shop.models import Order",
        "from django_dbqueue.models import Message",
        "print(list(Order.objects.order_by('pk').values_list('customer', 'booked')))",
        "print(Message.objects.done('orders').count(), Message.objects.done('receipts').count())",
        "print([dead.error for dead in Message.objects.dead()])",
    )
    assert printed == "[('ann', 10), ('busy', 20), ('eve', 0)]\n2 2\n['a negative amount']\n"
