"""Every page of the app in the admin: those that a URL pattern names and those that a link leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

from django.apps import apps
from django.contrib.admin.utils import quote
from django.test import Client
from django.urls import Resolver404, URLPattern, URLResolver, get_resolver, resolve

HOME = "/admin/django_dbqueue/"
STRUCTURAL = {"class", "type", "role", "rel", "method", "enctype", "scope", "for", "tabindex", "src"}
"""Attributes whose values come from our templates alone."""
LEADING = {"href", "src", "action", "formaction", "data", "srcset", "xlink:href"}
SCHEME = re.compile(r"\s*([a-zA-Z][a-zA-Z0-9+.\-\s]*):")


class Skeleton(HTMLParser):
    """What of a page is markup: elements, their attributes, and where its links lead, without any text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.links: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "wbr" and not attrs:
            return  # where a name may break: as many as it has parts
        words = [tag]
        for name, value in sorted(attrs, key=lambda pair: pair[0]):
            word = f"{name}={value}" if name in STRUCTURAL else name
            if name in LEADING and (scheme := SCHEME.match(value or "")):
                word += f" to {scheme.group(1)}:"
            words.append(word)
            if tag == "a" and name == "href":
                self.links.append(value or "")
        self.parts.append(" ".join(words))

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.parts.append(f"comment {data}")

    def handle_decl(self, decl: str) -> None:
        self.parts.append(f"declaration {decl}")

    def unknown_decl(self, data: str) -> None:
        self.parts.append(f"declaration {data}")

    def handle_pi(self, data: str) -> None:
        self.parts.append(f"instruction {data}")


@dataclass
class Visit:
    """A page that was looked at."""

    path: str
    kind: tuple[Any, ...]
    status: int
    type: str
    text: str
    skeleton: Skeleton


@dataclass
class Place:
    """A URL pattern of the app, and a URL of it that leads to a row that is there."""

    name: str
    path: str


def places() -> list[Place]:
    """Return a URL for every pattern below the app's place in the admin; one that can't be filled in fails."""
    return [Place(pattern.name or route, _filled(route, pattern)) for route, pattern in _patterns()]


def _patterns() -> Iterator[tuple[str, URLPattern]]:
    def walk(resolver: Any, before: str) -> Iterator[tuple[str, URLPattern]]:
        for each in resolver.url_patterns:
            route = before + str(each.pattern)
            if isinstance(each, URLResolver):
                yield from walk(each, route)
            elif ("/" + route).startswith(HOME) and each.name is not None:
                yield route, each

    return walk(get_resolver(), "")


def _filled(route: str, pattern: URLPattern) -> str:
    model = apps.get_model("django_dbqueue", route.split("/")[2])
    row = model._default_manager.order_by("pk").first()
    assert row is not None, f"no row of {model.__name__}"

    def value(match: re.Match[str]) -> str:
        name = match.group("name")
        if name in {"pk", "object_id", "id"}:
            return str(quote(row.pk))
        assert hasattr(row, name), f"what is {name} in {route}?"
        return str(quote(getattr(row, name)))

    return "/" + re.sub(r"<(?:\w+:)?(?P<name>\w+)>", value, route)


def kind_of(path: str) -> tuple[Any, ...]:
    """Return what tells a page from others of the same view: its name and what its query says, without values."""
    parts = urlsplit(path)
    try:
        match = resolve(parts.path)
    except Resolver404:
        return ("nothing", parts.path)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return (match.url_name, match.kwargs.get("app_label", ""), *sorted(query), query.get("state", ""))


def crawl(client: Client, *, each: int) -> list[Visit]:
    """Look at every page of the app, and at up to that many of each kind."""
    waiting = ["/admin/", HOME, *(place.path for place in places())]
    seen, counts, visits = set(waiting), dict[tuple[Any, ...], int](), list[Visit]()
    for path in waiting:  # which grows
        kind = kind_of(path)
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] > each:
            continue
        response: Any = client.get(path)
        text = b"".join(response).decode()
        kind_of_text = response.headers.get("Content-Type", "")
        skeleton = Skeleton(text if "html" in kind_of_text else "")
        visits.append(Visit(path, kind, response.status_code, kind_of_text, text, skeleton))
        for link in skeleton.links:
            target = urljoin(path, link).partition("#")[0]
            if target.startswith(HOME) and target not in seen:
                seen.add(target)
                waiting.append(target)
    return visits
