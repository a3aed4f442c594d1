"""The documentation holds: what it names is there, nothing is left out, and the quickstart works to the letter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name

import pytest
from django.conf import settings
from django.core.management import load_command_class
from django.core.management.base import BaseCommand

from django_dbqueue import conf
from django_dbqueue.databases import SERVERS
from django_dbqueue.doctor.checklist import CHECKS
from django_dbqueue.doctor.examination import FIRST
from django_dbqueue.routines.rendering import NAMES
from django_dbqueue.spark.jobs.arguments import JobConfig, arguments_of
from django_dbqueue.spark.jobs.config import JOBS
from tests.left_out import SPARK

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text()
IN_CHINESE = (ROOT / "docs" / "quickstart.zh-hans.md").read_text()
TASKS = (ROOT / "docs" / "tasks.md").read_text()
ONCE = (ROOT / "docs" / "once.md").read_text()
# The landing page shows a part; what its project needs is the quickstart's.
LANDING = QUICKSTART.partition("\n## A consumer\n")[0] + (ROOT / "docs" / "index.md").read_text()

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pages
def test_every_path_that_is_named_is_there(page: Path) -> None:
    named = set(
        re.findall(r"(?<![\w/-])((?:tests|django_dbqueue|example_project|docs|bin)/[\w./-]*)", page.read_text())
    )
    places = (ROOT, ROOT / "django_dbqueue" / "static")  # the latter as {% static %} names it
    missing = {path for path in named if not any((place / path.rstrip(".")).exists() for place in places)}
    assert not missing


@pages
def test_every_test_that_is_named_is_there(page: Path) -> None:
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", page.read_text())
    missing = [f"{path}::{name}" for path, name in named if f"def {name}(" not in (ROOT / path).read_text()]
    assert not missing


@pages
def test_every_name_of_the_package_is_there(page: Path) -> None:
    """Decisions tell what was at their time."""
    if page.parent.name == "decisions":
        return
    named = set(re.findall(r"(?<![\w/.-])django_dbqueue(?:\.[a-zA-Z_]\w*)+", page.read_text()))
    named = {name for name in named if not name.endswith(".zip") and not name.startswith("django_dbqueue.view_")}
    if not SPARK.is_here():  # as after `bin/test --quick` in a fresh clone
        named = {name for name in named if not name.startswith("django_dbqueue.spark.")}
    assert {name for name in named if not _is_there(name)} == set()


def _is_there(name: str) -> bool:
    """Whether it is a module, or an attribute of one."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pages
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in _anchors(there.read_text())):
            broken.append(target)
    assert not broken


@pages
def test_no_page_names_a_place_outside_the_project(page: Path) -> None:
    assert not re.findall(r"\.\./shared|/work/|/tmp/|/home/|/root/", page.read_text())


def test_the_readme_is_short_and_opens_with_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    first_screen = "\n".join(lines[:24])
    assert "$ bin/demo" in first_screen
    assert "$ bin/test" in first_screen


def test_every_promise_names_its_tests_or_that_it_is_not_built() -> None:
    page = (ROOT / "docs" / "promises.md").read_text()
    for number in range(1, 20):
        _, _, rest = page.partition(f"\n## P{number}. ")
        section = rest.partition("\n## ")[0]
        assert re.search(r"tests/\S+\.py::", section) or "Not built yet" in section, f"P{number}"


@pytest.mark.parametrize("name", [*conf.TOP_LEVEL, *conf.PER_QUEUE, *conf.PER_SCHEDULE])
def test_every_setting_is_documented(name: str) -> None:
    assert f"\n| `{name}` | " in SETTINGS


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("run_queue_worker", "\n## The worker\n"),
        ("queue_peek", "\n## A look at a queue\n"),
        ("queue_rescue", "\n## The guardian\n"),
    ],
)
def test_every_option_of_a_command_is_documented(name: str, heading: str) -> None:
    of_all = BaseCommand().create_parser("manage.py", name)._option_string_actions
    command = load_command_class("django_dbqueue", name)
    ours = command.create_parser("manage.py", name)._option_string_actions.keys() - of_all.keys()
    assert ours
    section = SETTINGS.partition(heading)[2].partition("\n## ")[0]
    assert [option for option in ours if f"\n| `{option}" not in section] == []


@pytest.mark.parametrize(
    "name",
    [
        *("queue_status", "queue_send", "queue_requeue", "queue_due_now", "queue_move", "queue_edit"),
        *("queue_cancel", "queue_drop", "queue_purge", "queue_pause", "queue_resume"),
    ],
)
def test_every_option_of_an_operators_command_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    of_all = BaseCommand().create_parser("manage.py", name)._option_string_actions
    command = load_command_class("django_dbqueue", name)
    ours = command.create_parser("manage.py", name)._option_string_actions.keys() - of_all.keys()
    assert [option for option in ours if f"\n| `{option}" not in section] == []


def test_every_option_of_a_pipeline_job_is_documented() -> None:
    page = (ROOT / "docs" / "spark" / "jobs.md").read_text()
    of_all = {each.name for each in arguments_of(JobConfig)}
    assert [name for name in of_all if f"`--{name.replace('_', '-')} " not in page.partition("\n## export\n")[0]] == []
    for name, job in JOBS.items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert section, name
        options = [
            "--" + each.name.rstrip("_").replace("_", "-")
            for each in arguments_of(job.config)
            if each.name not in of_all
        ]
        assert [option for option in options if f"\n| `{option}" not in section] == [], name


def test_every_routine_is_documented() -> None:
    page = (ROOT / "docs" / "routines.md").read_text()
    public = [name for name in NAMES if not name.startswith("dbqueue_")]
    assert public
    assert [name for name in public if f"`{name}" not in page] == []


def test_every_check_is_documented() -> None:
    ids = {
        id_
        for file in (ROOT / "django_dbqueue").rglob("*.py")
        for id_ in re.findall(r'"(dbqueue\.[EW]\d+)"', file.read_text())
    }
    assert ids
    assert ids == set(re.findall(r"^\| `(dbqueue\.[EW]\d+)` \|", SETTINGS, re.MULTILINE))


def test_every_check_and_every_option_of_the_doctor_is_documented() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| ", page.partition("\n## The checks\n")[2], re.MULTILINE)
    words = {"mysql": "MySQL, MariaDB", "postgresql": "PostgreSQL", "sqlite": "SQLite"}
    on: dict[str, set[str]] = {name: set(words) for name in FIRST}
    for check in CHECKS:
        on.setdefault(check.name, set()).update(each for each, server in SERVERS.items() if check.on(server))
    documented = {
        name: "all" if of == set(words) else ", ".join(words[one] for one in words if one in of)
        for name, of in on.items()
    }
    assert dict(rows) == documented
    assert [name for name, _of in rows] == list(documented), "in another order"
    for option in ("--json", "--database", "--fail-level"):
        assert f"\n| `{option}" in page


def _in_the_backport(page: str) -> str:
    """What the page tells those who have Django 5.2."""
    page = page.replace("from django.tasks import", "from django_tasks import")
    return page.replace('["django_dbqueue", "mail"]', '["django_tasks", "django_dbqueue", "mail"]')


@pytest.mark.skipif(settings.TEST_DATABASE != "sqlite", reason="the pages are SQLite's")
@pytest.mark.parametrize(
    ("page", "commands"),
    [(QUICKSTART, 7), (IN_CHINESE, 7), (TASKS, 9), (ONCE, 7), (LANDING, 6)],
    ids=["quickstart", "in-chinese", "tasks", "once", "landing"],
)
def test_the_page_does_what_it_shows(page: str, commands: int, tmp_path: Path) -> None:
    """Follows the page from top to bottom: files are written, commands run, and what they print is compared."""
    if find_spec("django.tasks") is None:
        page = _in_the_backport(page)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "DBQUEUE_"))}
    environment["PYTHONPATH"] = str(ROOT)
    steps = re.findall(
        r"^(?:In|At the end of|在) `([^`]+)`(?: 中| 末尾)?[:：]\n\n```python\n(.*?)^```|^```console\n(.*?)^```",
        page,
        re.MULTILINE | re.DOTALL,
    )
    ran = 0
    for path, content, session in steps:
        if path:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            with (tmp_path / path).open("a") as file:
                file.write(content)
        for command, expected in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
            assert _run(command, tmp_path, environment, expected)
            ran += 1
    assert ran == commands


def test_the_chinese_quickstart_has_the_code_of_the_english_one() -> None:
    """But for comments and a time zone: what one page can do, so can the other."""

    def code(page: str) -> list[str]:
        blocks = re.findall(r"^```(?:python|console)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        return [re.sub(r" *#.*|[A-Z]\w+/[A-Z]\w+", "", block) for block in blocks]

    english, chinese = code(QUICKSTART), code(IN_CHINESE)
    assert len(chinese) >= 11
    assert [block for block in chinese[:-1] if block not in english] == []
    assert set(chinese[-1].splitlines()) <= {line for block in english for line in block.splitlines()}


def _run(command: str, directory: Path, environment: dict[str, str], expected: str) -> bool:
    line = re.sub(r"^python ", f"{sys.executable} ", command)
    line = re.sub(r"^django-admin ", f"{sys.executable} -m django ", line)
    done = subprocess.run(line, shell=True, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    if expected:
        assert done.stdout == expected, command
    return True
