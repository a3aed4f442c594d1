"""docs/how-to/recipes.md does what it says, and each of its words leads to it from the glossary and the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages.page_project import ON_SQLITE, ROOT, make_project, run_there, shell

PAGE = (ROOT / "docs" / "how-to" / "recipes.md").read_text()
SECTIONS = {name.lower(): text for name, text in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)}
WORDS = ("debounce", "throttle", "unique", "cancel", "recycle", "cron")
CONSUMERS = """
from django_dbqueue import consumer


@consumer("search")
@consumer("sync")
def work(message):
    print("worked on", message.payload)
"""

pytestmark = ON_SQLITE


def code(word: str, which: int = 0) -> str:
    """Python of a section: the first, or another one."""
    return re.findall(r"```python\n(.*?)```", SECTIONS[word], re.S)[which]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("recipes")
    recipes = {word: code(word) for word in ("debounce", "throttle", "unique", "cancel")}
    recipes["often"] = code("debounce", 1)
    make_project(directory, "shop", recipes | {"queue_consumers": CONSUMERS + code("cron")})
    return directory


def test_each_word_leads_here() -> None:
    assert tuple(SECTIONS) == WORDS
    for page, path in (("docs/glossary.md", "how-to/recipes.md"), ("README.md", "docs/how-to/recipes.md")):
        text = (ROOT / page).read_text()
        assert [word for word in WORDS if f"[{word}]({path}#{word})" not in text] == []


def test_of_many_changes_the_last_one_is_left_and_put_off(project: Path) -> None:
    printed = shell(
        project,
        "from shop.debounce import changed",
        "from django_dbqueue.models import Message",
        "changed(17, 'one')",
        "first = Message.objects.get(queue='search', key='article-17')",
        "changed(17, 'two')",
        "last = Message.objects.get(queue='search', key='article-17')",
        "print(last.payload['text'], last.available_at > first.available_at, last.pk == first.pk)",
    )
    assert printed == "two True True\n"


def test_while_changes_never_pause_one_message_is_due_after_each_ten_seconds(project: Path) -> None:
    """A change that comes while its handler runs has a message of its own, in the next ten seconds."""
    printed = shell(
        project,
        "from unittest.mock import patch",
        "from datetime import timedelta",
        "from shop.often import often_changed",
        "from django_dbqueue.models import Message",
        "for moment in (1_700_000_000.1, 1_700_000_009.9, 1_700_000_010):",
        "    with patch('time.time', return_value=moment): often_changed(18)",
        "sent = Message.objects.filter(queue='search', key__startswith='article-18-')",
        "print([(each.key, each.available_at - each.created_at >= timedelta(seconds=14)) for each in sent])",
    )
    assert printed == "[('article-18-170000000', True), ('article-18-170000001', True)]\n"


def test_in_ten_minutes_one_call_is_the_one(project: Path) -> None:
    assert shell(project, "from shop.throttle import refresh", "print([refresh(4), refresh(4), refresh(5)])") == (
        "[True, False, True]\n"
    )


def test_a_key_is_held_until_its_message_is_done_or_cancelled(project: Path) -> None:
    def call(expression: str) -> str:
        return shell(
            project, "from shop.unique import sync", "from shop.cancel import cancel", f"print({expression})"
        ).strip()

    assert call("[sync(1), sync(1), sync(2)]") == "[True, False, True]"
    assert call("[sync(1), cancel(1), cancel(1), sync(1)]") == "[False, None, None, True]"
    output = run_there(project, "run_queue_worker", "--drain", "--queues", "sync")
    assert output.count("worked on") == 2
    assert call("sync(2)") == "True"


def test_the_schedule_is_one(project: Path) -> None:
    printed = shell(
        project,
        "from django_dbqueue.consumers import registry",
        "registry.autodiscover()",
        "print([(plan.name, plan.cron.expression) for plan in registry.plans()])",
    )
    assert printed == "[('reports', '0 3 * * *')]\n"
