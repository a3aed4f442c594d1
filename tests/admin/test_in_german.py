"""With German as the language, nothing on any page reads as it does in English but what others wrote.

Nor does it in Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation
from django.utils.text import capfirst

from django_dbqueue.models import Message, MessageEvent
from django_dbqueue.redaction.stored_texts import translated
from django_dbqueue.states.counts import Capped
from tests.admin.bulk_orders import ordered
from tests.admin.confirmations import ask, confirm
from tests.admin.conftest import make_dead, make_ready, url
from tests.admin.crawl import crawl, kind_of
from tests.admin.world import fill
from tests.commands.running import run
from tests.factories import row
from tests.operations.orders import go_on

pytestmark = pytest.mark.once
DATUM = "xyzzy"
"""What stands wherever somebody else may write."""
SHOWN = {"title", "aria-label", "placeholder", "alt", "label", "summary"}
"""Attributes that are read to people."""
DJANGOS = {"- Select an option -", "Model name", "Add link", "Change or view list link"}
"""What Django itself says in English: the newest on its German pages, 5.2 on its Chinese ones."""
HIDDEN = {"script", "style", "code", "pre"}


class Texts(HTMLParser):
    """What a page says to people, piece by piece."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._inside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in HIDDEN:
            self._inside.append(tag)
        values = dict(attrs)
        names = SHOWN | ({"value"} if values.get("type") in {"submit", "button", "reset"} else set())
        self.pieces += [value for name, value in attrs if name in names and value]

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside and data.strip():
            self.pieces.append(" ".join(data.split()))


def pages_in(language: str, client: Client) -> dict[str, list[str]]:
    with translation.override(language):
        visits = crawl(client, each=3)
    return {visit.path: Texts(visit.text).pieces for visit in visits if "html" in visit.type and visit.status == 200}


def is_ours(piece: str) -> bool:
    """Whether there are two words or more beside what others wrote, queues' names, and other apps' models."""
    others = (model for model in apps.get_models() if model._meta.app_label != "django_dbqueue")
    if piece in DJANGOS | {capfirst(str(model._meta.verbose_name_plural)) for model in others}:
        return False
    words = re.findall(r"[^\W\d_]{3,}", re.sub(r"queue-\d+", "", piece.replace(DATUM, "")))
    return len(words) > 1


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["de", "zh-hans"])
def test_no_page_keeps_its_english(language: str, browser: Client, settings: Any) -> None:
    settings.LANGUAGE_CODE = language
    fill([DATUM])
    english, foreign = pages_in("en", browser), pages_in(language, browser)
    # Between the two crawls time goes by, and with it some links, but no kind of page.
    both = english.keys() & foreign.keys()
    assert {kind_of(path) for path in both} == {kind_of(path) for path in english.keys() | foreign.keys()}
    kept: dict[str, str] = {}
    for path in both:
        before = set(english[path])
        kept |= {piece: path for piece in foreign[path] if piece in before and is_ours(piece)}
    assert not kept, "\n".join(f"{piece!r} on {path}" for piece, path in kept.items())


@pytest.mark.django_db
def test_nor_does_a_page_that_has_nothing_to_show(browser: Client, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    ours = [model for model in site._registry if model._meta.app_label == "django_dbqueue"]
    paths = ["/admin/django_dbqueue/", *(url("changelist", model=model._meta.model_name or "") for model in ours)]
    for path in paths:
        pieces = {}
        for language in ("en", "de"):
            with translation.override(language):
                pieces[language] = Texts(browser.get(path).content.decode()).pieces
        assert pieces["en"], path
        kept = [piece for piece in pieces["de"] if piece in pieces["en"] and is_ours(piece)]
        assert not kept, (path, kept)


@pytest.mark.django_db
def test_the_words_of_the_queue_are_german_on_its_pages(browser: Client, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    fill([DATUM])
    with translation.override("de"):
        shown = {visit.kind[0]: " ".join(Texts(visit.text).pieces) for visit in crawl(browser, each=1)}
    for name, words in {
        "app_list": "Nachrichten-Warteschlange Warteschlangen Worker Zeitpläne",
        "django_dbqueue_message_changelist": "Warteschlange Schlüssel Zustellungen",
        "django_dbqueue_message_change": "Nutzdaten Zeiten Gesendet",
        "django_dbqueue_queue_changelist": "angehalten Grund",
    }.items():
        missing = [word for word in words.split() if word.lower() not in shown[name].lower()]
        assert not missing, (name, shown[name])


@pytest.mark.django_db
def test_numbers_are_in_german_groups(browser: Client, settings: Any) -> None:
    """In German 2,560 is a little more than two and a half."""
    settings.LANGUAGE_CODE = "de"
    message = Message.objects.enqueue(bytes(2_560), queue="queue-1")
    page = browser.get(url("change", message.pk)).content.decode()
    assert "2.560 Bytes, als Base64 gezeigt." in page
    with translation.override("de"):
        assert str(Capped(10_001, 10_000)) == "10.000+"


def page_of(client: Client, message: Message, language: str) -> str:
    with translation.override(language):
        return " ".join(Texts(client.get(url("change", message.pk)).content.decode()).pieces)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("verb", "make", "word", "wort"),
    [("drop", make_dead, "Dropped", "Verworfen"), ("reject", make_ready, "Rejected", "Abgewiesen")],
)
def test_what_a_german_does_is_stored_in_english_and_shown_to_everybody_in_their_language(
    browser: Client, settings: Any, verb: str, make: Callable[..., Message], word: str, wort: str
) -> None:
    settings.LANGUAGE_CODE = "de"
    message = make()
    with translation.override("de"):
        confirm(browser, verb, ask(browser, verb, message))
    stored = f"{word} by op: because"
    assert (row(message)["error"], MessageEvent.objects.latest("pk").detail) == (stored, stored)
    assert LogEntry.objects.get().change_message == f"{word}: because"
    german, english = (page_of(browser, message, language) for language in ("de", "en"))
    assert f"{wort} von op: because" in german
    assert stored not in german
    assert stored in english
    with translation.override("de"):
        shown = run("queue_peek", "q", "--state", "done" if verb == "drop" else "dead").out
    assert f"{wort} von op: because" in shown


@pytest.mark.django_db
def test_what_is_done_to_all_is_stored_in_english_too(browser: Client, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    message, other, alone = make_dead(), make_dead(), make_dead("other")
    with translation.override("de"):
        go_on(ordered(browser))
        assert run("queue_drop", str(alone.pk), "--reason", "old", "--by", "ann", "--yes").code == 0
    assert all(row(each)["error"].endswith("by op: a bad deploy") for each in (message, other))
    assert row(alone)["error"].endswith("by ann: old")
    logged = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(logged) == [
        "Started: Drop, Dead letters of queue q. a bad deploy",
        "Ended (done): 2 moved, 0 left alone.",
    ]


@pytest.mark.django_db
def test_why_an_operation_ended_is_stored_in_english_and_shown_in_german(
    browser: Client, operator: User, settings: Any
) -> None:
    settings.LANGUAGE_CODE = "de"
    make_dead()
    stopped, refused = ordered(browser), ordered(browser)
    path = url("change", stopped.pk, model="bulkoperation")
    with translation.override("de"):
        browser.post(url("stop", stopped.pk, model="bulkoperation"))
        assert "Angehalten von op." in browser.get(path).content.decode()
    operator.is_superuser = False
    operator.save()
    with translation.override("de"):
        go_on(refused)
    stopped.refresh_from_db()
    assert (stopped.error, refused.error) == ("Stopped by op.", "op may not do this any more.")
    assert translated(refused.error) == "op darf das nicht mehr."
