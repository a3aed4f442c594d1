"""Every form of a page, filled in and sent, as somebody would who presses each of its buttons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from django.db import transaction
from django.test import Client

from tests.admin.crawl import HOME, kind_of

Pair = tuple[str, str]


@dataclass
class Sent:
    """A form as one of its buttons sends it."""

    action: str
    pairs: list[Pair]


@dataclass
class _Form:
    action: str
    pairs: list[Pair] = field(default_factory=list)
    buttons: list[tuple[str, Pair | None]] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    """What the select ``action`` of a list offers."""


class _Forms(HTMLParser):
    """The forms of a page that are posted; every row of a list is ticked."""

    def __init__(self, page: str, texts: Mapping[str, str]) -> None:
        super().__init__()
        self.forms: list[_Form] = []
        self._by_id: dict[str, _Form] = {}
        self._outside: list[tuple[str, tuple[str, Pair | None]]] = []
        """Buttons outside their form, which name it."""
        self._texts = texts
        self._form: _Form | None = None
        self._select = ""
        self._area = ""
        self.feed(page)
        for name, button in self._outside:
            self._by_id[name].buttons.append(button)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = _Form(given.get("action", "")) if given.get("method", "").lower() == "post" else None
            if self._form is not None:
                self._by_id[given.get("id", "")] = self._form
        name, value = given.get("name", ""), given.get("value", "")
        button = (given.get("formaction", ""), (name, value) if name else None)
        if tag == "button" and "form" in given:
            self._outside.append((given["form"], button))
            return
        if self._form is None:
            return
        if tag == "input":
            self._input(given.get("type", "text"), name, value, given)
        elif tag == "button":
            self._form.buttons.append(button)
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select == "action":
            self._form.choices += [value] if value else []
        elif tag == "option" and (given.get("selected") is not None or name not in dict(self._form.pairs)):
            self._form.pairs.append((self._select, value))
        elif tag == "textarea":
            self._area = name

    def _input(self, kind: str, name: str, value: str, given: Mapping[str, str]) -> None:
        assert self._form is not None
        if kind == "submit":
            self._form.buttons.append((given.get("formaction", ""), (name, value) if name else None))
        elif kind in {"checkbox", "radio"} and name != "_selected_action" and "checked" not in given:
            return
        elif name:
            self._form.pairs.append((name, value or self._texts.get(name, "")))

    def handle_data(self, data: str) -> None:
        if self._area and self._form is not None:
            self._form.pairs.append((self._area, data.strip() or self._texts.get(self._area, "")))
            self._area = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            if self._form is not None:
                self.forms.append(self._form)
            self._form = None
        elif tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._area = ""


def sendings(path: str, page: str, texts: Mapping[str, str]) -> Iterator[Sent]:
    """Yield what each button of a page's own forms sends, and each action of a list, of its rows and of
    all that match; empty texts are filled in.
    """
    for form in _Forms(page, texts).forms:
        for action, pair in form.buttons:
            target = urljoin(path, action or form.action)
            if not target.startswith(HOME):
                continue  # to sign out, or to choose a language
            pairs = [*form.pairs, *([] if pair is None else [pair])]
            if not form.choices:
                yield Sent(target, pairs)
            for choice in form.choices:
                yield Sent(target, [*pairs, ("action", choice)])
                everything = [pair for pair in pairs if pair[0] != "select_across"]
                yield Sent(target, [*everything, ("action", choice), ("select_across", "1")])


class Poster:
    """Sends all that pages can send, once of each kind, and takes back what that has changed in a database."""

    def __init__(self, client: Client, using: str, texts: Mapping[str, str]) -> None:
        self._client = client
        self._using = using
        self._texts = texts
        self._done: set[tuple[Any, ...]] = set()

    @property
    def names(self) -> set[str]:
        """The names of the addresses that were posted to."""
        return {kind[0] for kind in self._done}

    def visit(self, path: str) -> None:
        """Press each button of a page, and of the pages that answer."""
        for sent in sendings(path, self._client.get(path).content.decode(), self._texts):
            with transaction.atomic(using=self._using):
                self._send(sent)
                transaction.set_rollback(True, using=self._using)

    def _send(self, sent: Sent) -> None:
        pressed = [pair for pair in sent.pairs if pair[0] in {"action", "verb", "select_across"}]
        kind = (*kind_of(sent.action), *pressed, *sorted({name for name, _value in sent.pairs}))
        if kind in self._done:
            return
        self._done.add(kind)
        data: dict[str, list[str]] = {}
        for name, value in sent.pairs:
            data.setdefault(name, []).append(value)
        answer = self._client.post(sent.action, data)
        assert answer.status_code in {200, 302}, f"{sent.action}: {answer.status_code}"
        if "html" in answer.headers["Content-Type"]:
            for following in sendings(sent.action, answer.content.decode(), self._texts):
                self._send(following)
