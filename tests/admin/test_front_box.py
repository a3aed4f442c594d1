"""The box on the admin's front page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from django_dbqueue.admin import dashboard
from django_dbqueue.databases import Statement
from django_dbqueue.sessions.django_session import DjangoSession
from tests.admin.conftest import make_dead, make_stuck

pytestmark = pytest.mark.django_db


def box(client: Client) -> str:
    text = client.get("/admin/").content.decode()
    found = re.findall(r'<div class="module dbqueue-shortcuts">.*?</div>', text, re.DOTALL)
    assert len(found) <= 1
    return found[0] if found else ""


def words(text: str) -> list[str]:
    return [" ".join(re.sub(r"<[^>]+>", " ", each).split()) for each in re.findall(r"<li>.*?</li>", text)]


def test_it_has_numbers_and_a_link_to_the_dashboard(browser: Client) -> None:
    make_stuck("q")
    make_dead("q")
    make_dead("q")
    shown = box(browser)
    assert words(shown) == ["! Stuck messages: 1", "✕ Dead letters: 2", "Running messages: 0", "Dashboard"]
    assert 'href="/admin/django_dbqueue/"' in shown


def test_what_is_none_has_no_mark(browser: Client) -> None:
    shown = box(browser)
    assert words(shown) == ["Stuck messages: 0", "Dead letters: 0", "Running messages: 0", "Dashboard"]
    assert "dbqueue-stuck" not in shown


def test_who_may_see_no_message_sees_no_box(client_with: Callable[..., Client]) -> None:
    assert box(client_with("view_queue")) == ""
    assert words(box(client_with("view_message")))[-1] == "Running messages: 0", "and no link to a dashboard"


def test_an_error_of_the_database_leaves_the_links_and_the_pages_transaction(browser: Client, monkeypatch: Any) -> None:
    def fail(session: DjangoSession, *_: object, **__: object) -> None:
        session.fetch(Statement("SELECT 1 FROM django_dbqueue_gone", ()))

    monkeypatch.setattr(dashboard, "depths", fail)
    assert words(box(browser)) == ["Stuck messages", "Dead letters", "Running messages", "Dashboard"]
