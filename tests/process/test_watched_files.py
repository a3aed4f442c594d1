"""What ``run_queue_worker --reload`` takes for a save: files of the project, and nothing that only an editor does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils.autoreload import BaseReloader, autoreload_started

from django_dbqueue.worker.watched_files import WatchedFiles, python_files

pytestmark = pytest.mark.once


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Path]:
    """A template in a folder that somebody has watched, as Django does, while somebody else's receiver fails."""

    def fail(**_: object) -> None:
        raise RuntimeError("a receiver of the project's")

    def watch(*, sender: BaseReloader, **_: object) -> None:
        sender.watch_dir(tmp_path, "**/*")

    autoreload_started.connect(fail)
    autoreload_started.connect(watch)
    page = tmp_path / "mail" / "page.html"
    page.parent.mkdir()
    page.write_text("one")
    yield page
    autoreload_started.disconnect(watch)
    autoreload_started.disconnect(fail)


def test_what_was_saved_replaced_removed_or_created_is_seen_once(page: Path) -> None:
    files = WatchedFiles()
    assert files.saved() is None
    os.utime(page, (2_000_000_000, 2_000_000_000))
    assert [files.saved(), files.saved()] == [page, None]
    os.utime(page, (1_000_000_000, 1_000_000_000))
    assert [files.saved(), files.saved()] == [page, None], "an older one in its place"
    page.unlink()
    assert [files.saved(), files.saved()] == [page, None]
    page.touch()
    assert [files.saved(), files.saved()] == [page, None]


def test_a_folder_that_is_gone_is_the_removal_of_its_files(page: Path) -> None:
    files = WatchedFiles()
    page.unlink()
    page.parent.rmdir()
    page.parent.parent.rmdir()
    assert [files.saved(), files.saved()] == [page, None]


@pytest.mark.parametrize("name", [".page.html.swp", "page.html~", "#page.html#", ".#page.html"])
def test_an_editor_that_opens_a_file_saves_nothing(name: str, page: Path) -> None:
    """The file that it writes, and the time of the folder, which changes thereby."""
    files = WatchedFiles()
    page.with_name(name).write_text("of an editor")
    os.utime(page.parent, (2_000_000_000, 2_000_000_000))
    assert files.saved() is None


def test_python_files_of_a_folder_are_those_of_the_project(tmp_path: Path) -> None:
    ours = {tmp_path / "models.py", tmp_path / "deep" / "er" / "views.py"}
    others = {
        *(tmp_path / ".venv" / "a.py", tmp_path / "env" / "lib" / "a.py", tmp_path / "env" / "pyvenv.cfg"),
        *(tmp_path / "static" / "node_modules" / "a.py", tmp_path / ".#models.py", tmp_path / "notes.txt"),
    }
    for path in ours | others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert set(python_files(tmp_path)) == ours
