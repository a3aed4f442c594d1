"""What people may see of a message's content, decided in one place for every page, download and command.

``DBQUEUE["REDACT"]`` names fields that nobody is shown, or a callable that removes them, or both. How to use it:

* ``content_of(message)`` returns payload and headers as they may be shown to somebody with ``view_payload``. The
  caller checks that permission first; nothing here knows users.
* ``error_text(text, of=message, sees_payload=...)`` returns an error, or any text that a consumer wrote, as it may be
  shown: values of redacted fields are masked, and users without ``view_payload`` see the ``outline``. A text of ours
  is in the reader's language.
* ``error_text(text, of=None, ...)`` is for when the message's content is not at hand: if anything is redacted, it
  returns the outline, because what to mask can't be known. ``is_redacting()`` returns whether a list has to read the
  content at all.

``message`` is anything with ``queue``, ``body``, ``content_type`` and ``headers_text``.

Failures show nothing: a hook that raises, or that returns something other than payload and headers, hides both and says
so. So does a body that can't be decoded, in which no field can be found.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from django_dbqueue import codecs, conf
from django_dbqueue.codecs import Json
from django_dbqueue.exceptions import UndecodableMessage
from django_dbqueue.redaction.json_in_text import Unreadable, names, opened, strictly
from django_dbqueue.redaction.masking import Secret, masked, outline, secrets_between
from django_dbqueue.redaction.stored_texts import translated
from django_dbqueue.value_types import TYPES, spellings, types_in

MARK: Final = "[redacted]"
"""Replaces a redacted value."""
MOST: Final = 10_000
"""Values that are searched for in one error; if there are more, its outline is shown."""
ANY: Final = "*"
DEEP: Final = "**"

_KEPT: Final = "_dbqueue_redaction"

Path = tuple[str, ...]
Hook = Callable[[str, Json, dict[str, Json]], tuple[Json, dict[str, Json]]]

_log = logging.getLogger("django_dbqueue")


class Stored(Protocol):
    """A message, an archived one, or what a list has read of one."""

    @property
    def queue(self) -> str: ...
    @property
    def body(self) -> str: ...
    @property
    def content_type(self) -> str: ...
    @property
    def headers_text(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What was read of a message, or a value that its handler left, such as a result."""

    queue: str
    body: str
    content_type: str
    headers_text: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """A message's content as it may be shown.

    ``payload`` is decoded, and ``headers`` is a dict. If one of them can't be decoded and nothing is redacted, it is
    the stored text, and ``..._broken`` says why. With ``hidden``, which says why, neither is shown.
    """

    payload: Json = None
    headers: Json = None
    payload_broken: str = ""
    headers_broken: str = ""
    hidden: str = ""


class _Unshown(Exception):
    """Raised if the content can't be shown; its text, the reason, may be."""


class _Hiding:
    """A walker that puts marks where paths lead. ``unread``: a text was hidden whose content can't be determined."""

    def __init__(self) -> None:
        self.unread = False

    def hide(self, value: Json, paths: list[Path]) -> Json:
        """Return the value with a mark wherever one of the paths leads, or may lead."""
        if not paths:
            return value
        if any(path == () for path in paths):
            return MARK
        if isinstance(value, dict):
            return {key: self.hide(item, _behind(key, paths)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.hide(item, _behind(str(index), paths)) for index, item in enumerate(value)]
        return self._hide_inside(value, paths) if isinstance(value, str | bytes) else value

    def _hide_inside(self, value: str | bytes, paths: list[Path]) -> str | bytes:
        try:
            inside = opened(value)
        except Unreadable:
            self.unread = True
            return MARK
        if inside is None:
            self.unread |= (found := names(value, map(_spelt, paths)))
            return MARK if found else value
        hidden = self.hide(inside, paths)
        if hidden == inside:
            return value
        text = json.dumps(hidden, ensure_ascii=False)
        return text if isinstance(value, str) else text.encode("utf-8", "backslashreplace")


class _Redaction:
    """The outcome for one content: payload and headers before and after, or why nothing of it is shown."""

    def __init__(self, message: Stored) -> None:
        self.before: tuple[Json, Json] = (None, None)
        self.after: tuple[Json, Json] = (None, None)
        self.hidden = ""
        self._is_typed = False
        self._hiding = _Hiding()
        try:
            self.before, self.after, self._is_typed = _redacted(message, self._hiding)
        except _Unshown as reason:
            self.hidden = str(reason)

    @cached_property
    def secrets(self) -> set[Secret] | None:
        """Return the values that must not be read; None if they can't be determined."""
        if self.hidden or self._hiding.unread:
            return None
        try:
            found = secrets_between(self.before, self.after)
        except (Unreadable, RecursionError):
            return None
        if self._is_typed:
            found |= {Secret(field, form) for field, value in found if type(value) is str for form in spellings(value)}
        return found if len(found) <= MOST else None


def is_redacting() -> bool:
    """Return whether ``DBQUEUE["REDACT"]`` is set."""
    names, path = conf.redaction()
    return bool(names or path)


def content_of(message: Stored) -> Content:
    """Return payload and headers as they may be shown to those who may see payloads."""
    if not is_redacting():
        return as_stored(message)
    found = _redaction_of(message)
    return Content(hidden=found.hidden) if found.hidden else Content(*found.after)


def error_text(text: str | None, *, of: Stored | None, sees_payload: bool) -> str:
    """Return an error as it may be shown; nothing of what it quotes if that can't be determined."""
    if not text:
        return ""
    if not sees_payload:
        return outline(text)
    if not is_redacting():
        return translated(text)
    secrets = None if of is None else _redaction_of(of).secrets
    shown = None if secrets is None else masked(text, secrets, mark=MARK)
    return outline(text) if shown is None else translated(shown)


def load_hook(path: str) -> Hook:
    """Return the callable at a dotted path; ImportError, or what its module raises, if there is none."""
    hook: Hook = import_string(path)
    if not callable(hook):
        raise ImportError(f"{path} is not callable")
    return hook


def as_stored(message: Stored) -> Content:
    """Return payload and headers as they are stored, whatever is redacted."""
    headers: object
    payload, headers, payload_broken, headers_broken = message.body, message.headers_text, "", ""
    try:
        payload = codecs.decode(message.body or "", message.content_type)
    except UndecodableMessage as error:
        payload_broken = str(error)
    try:
        headers = codecs.decode_headers(message.headers_text)
    except UndecodableMessage as error:
        headers_broken = str(error)
    return Content(payload, headers, payload_broken, headers_broken)


def _redaction_of(message: Stored) -> _Redaction:
    """Return the redaction of a content, computed once per object: a page asks for it many times."""
    key = (conf.redaction(), message.queue, message.body, message.content_type, message.headers_text)
    kept: tuple[Json, _Redaction] | None = getattr(message, _KEPT, None)
    if kept is not None and kept[0] == key:
        return kept[1]
    found = _Redaction(message)
    if hasattr(message, "__dict__"):
        setattr(message, _KEPT, (key, found))
    return found


def _redacted(message: Stored, hiding: _Hiding) -> tuple[tuple[Json, Json], tuple[Json, dict[str, Json]], bool]:
    """Return (payload, headers) as stored, and as they may be shown; and whether the payload has types."""
    fields, path = conf.redaction()
    before, ours = _decoded(message), _decoded(message)  # twice: a hook may change what it is given
    types = before[1].pop(TYPES, None)  # places and names of types: the word "date" is not to be masked in errors
    ours[1].pop(TYPES, None)
    paths = [tuple(name.split(".")) for name in fields]
    try:
        after = (hiding.hide(ours[0], paths), hiding.hide(ours[1], paths))
    except RecursionError as error:
        raise _Unshown(_("Not shown: it nests too deep to be redacted.")) from error
    if path is not None:
        after = _by_hook(path, message.queue, *after)
    shown = types if after[0] == before[0] else types_in(types, after[0])
    return before, after if shown is None else (after[0], {**after[1], TYPES: shown}), types is not None


def _decoded(message: Stored) -> tuple[Json, dict[str, Json]]:
    try:
        payload = codecs.decode(message.body or "", message.content_type)
        # If a name occurs twice, one value is lost, but may still be in errors
        if message.content_type == codecs.JSON:
            strictly(message.body)
        if message.headers_text is not None:
            strictly(message.headers_text, levels=codecs.HEADER_DEPTH)
        return payload, codecs.decode_headers(message.headers_text)
    except (UndecodableMessage, Unreadable) as error:
        raise _Unshown(_("Not shown: what can't be decoded can't be redacted.")) from error


def _by_hook(path: str, queue: str, payload: Json, headers: dict[str, Json]) -> tuple[Json, dict[str, Json]]:
    try:
        payload, headers = load_hook(path)(queue, payload, headers)
        if not isinstance(headers, Mapping):
            raise TypeError("no dict of headers")
        json.dumps([dict(headers), None if isinstance(payload, bytes) else payload])
    except Exception as error:
        kind = type(error).__name__  # and not its text, which may quote what is to be hidden
        _log.warning("The redaction %s failed (%s): payload and headers are not shown.", path, kind)
        raise _Unshown(
            _("Not shown: the redaction %(path)s failed (%(kind)s).") % {"path": path, "kind": kind}
        ) from error
    return payload, dict(headers)


def _spelt(path: Path) -> Path:
    """Return what must occur in a text, in some form, if the path leads into it."""
    return tuple(name.casefold() for name in path if name not in (ANY, DEEP) and not name.isdigit())


def _behind(key: str, paths: list[Path]) -> list[Path]:
    """Return what is left of the paths after this key."""
    left: list[Path] = []
    for path in paths:
        if path[0] == DEEP:
            left += [path, *_behind(key, [path[1:]] if path[1:] else [])]
        elif path[0] == ANY:
            left.append(path[1:])
        else:  # a key may contain dots itself, as headers' often do
            folded = key.casefold()
            left += [path[n:] for n in range(1, len(path) + 1) if ".".join(path[:n]).casefold() == folded]
    return left
