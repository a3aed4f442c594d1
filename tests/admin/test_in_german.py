"""With German as the language, nothing on any page reads as it does in English but what others wrote."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.utils import translation
from django.utils.text import capfirst

from django_dbqueue.counts import Capped
from django_dbqueue.models import Message
from tests.admin.conftest import url
from tests.admin.crawl import crawl, kind_of
from tests.admin.world import fill

if TYPE_CHECKING:
    from django.test import Client

pytestmark = pytest.mark.once
DATUM = "xyzzy"
"""What stands wherever somebody else may write."""
SAID = {"title", "aria-label", "placeholder", "alt", "label", "summary"}
"""Attributes that are read to people."""
DJANGOS = {"- Select an option -"}
"""What the newest Django itself says in English on its German pages."""
NOT_SAID = {"script", "style", "code", "pre"}


class Said(HTMLParser):
    """What a page says to people, piece by piece."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._inside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in NOT_SAID:
            self._inside.append(tag)
        said = dict(attrs)
        names = SAID | ({"value"} if said.get("type") in {"submit", "button", "reset"} else set())
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
    return {visit.path: Said(visit.text).pieces for visit in visits if "html" in visit.type and visit.status == 200}


def is_ours(piece: str) -> bool:
    """Whether there are two words or more beside what others wrote, queues' names, and other apps' models."""
    others = (model for model in apps.get_models() if model._meta.app_label != "django_dbqueue")
    if piece in DJANGOS | {capfirst(str(model._meta.verbose_name_plural)) for model in others}:
        return False
    words = re.findall(r"[^\W\d_]{3,}", re.sub(r"queue-\d+", "", piece.replace(DATUM, "")))
    return len(words) > 1


@pytest.mark.django_db
def test_no_page_keeps_its_english(browser: Client, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    fill([DATUM])
    english, german = pages_in("en", browser), pages_in("de", browser)
    # Between the two crawls time goes by, and with it some links, but no kind of page.
    both = english.keys() & german.keys()
    assert {kind_of(path) for path in both} == {kind_of(path) for path in english.keys() | german.keys()}
    kept: dict[str, str] = {}
    for path in both:
        before = set(english[path])
        kept |= {piece: path for piece in german[path] if piece in before and is_ours(piece)}
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
                pieces[language] = Said(browser.get(path).content.decode()).pieces
        assert pieces["en"], path
        kept = [piece for piece in pieces["de"] if piece in pieces["en"] and is_ours(piece)]
        assert not kept, (path, kept)


@pytest.mark.django_db
def test_the_words_of_the_queue_are_german_on_its_pages(browser: Client, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    fill([DATUM])
    with translation.override("de"):
        said = {visit.kind[0]: " ".join(Said(visit.text).pieces) for visit in crawl(browser, each=1)}
    for name, words in {
        "app_list": "Nachrichten-Warteschlange Warteschlangen Worker Zeitpläne",
        "django_dbqueue_message_changelist": "Warteschlange Schlüssel Zustellungen",
        "django_dbqueue_message_change": "Nutzdaten Zeiten Gesendet",
        "django_dbqueue_queue_changelist": "angehalten Grund",
    }.items():
        missing = [word for word in words.split() if word.lower() not in said[name].lower()]
        assert not missing, (name, said[name])


@pytest.mark.django_db
def test_numbers_are_in_german_groups(browser: Client, settings: Any) -> None:
    """In German 2,560 is a little more than two and a half."""
    settings.LANGUAGE_CODE = "de"
    message = Message.objects.enqueue(bytes(2_560), queue="queue-1")
    page = browser.get(url("change", message.pk)).content.decode()
    assert "2.560 Bytes, als Base64 gezeigt." in page
    with translation.override("de"):
        assert str(Capped(10_001, 10_000)) == "10.000+"
