"""Signed links to the progress of one flow or message. They say its number and when they expire, and nothing else."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from math import ceil
from typing import Final, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.core.signing import BadSignature, SignatureExpired, Signer
from django.db import connections
from django.urls import NoReverseMatch, reverse

from django_dbqueue import conf
from django_dbqueue.envelope import shown
from django_dbqueue.models import Flow, Message
from django_dbqueue.models.aliases import db_alias
from django_dbqueue.models.flow_builder import FlowBuilder

DAY: Final = timedelta(days=1)
SALT: Final = "django_dbqueue.progress"
FLOW: Final = "f"
MESSAGE: Final = "m"
DELETED_MESSAGE: Final = "d"
"""A message whose row is deleted when it is acked."""


class Followed(NamedTuple):
    """What a link is about."""

    kind: str
    number: int
    using: str


def progress_token(subject: Flow | FlowBuilder | Message, *, expires_in: float | timedelta = DAY) -> str:
    """Return a signed token for ``progress_url``; ``expires_in`` is in seconds, or a timedelta.

    Whoever has it sees how far this flow or message is until it expires, by the web server's clock, and no payload or
    name. It can't be revoked but by changing SECRET_KEY. TypeError if the subject is no flow or message that was
    enqueued; ValueError if it would have expired already.
    """
    followed = followed_of(subject)
    seconds = expires_in.total_seconds() if isinstance(expires_in, timedelta) else expires_in
    if isinstance(seconds, bool) or not (isinstance(seconds, int | float) and 0 < seconds <= sys.float_info.max):
        raise ValueError(f"expires_in must be a positive number of seconds, or a timedelta, not {shown(expires_in)}.")
    content = [followed.kind, followed.number, ceil(time.time() + seconds)]
    if followed.using != db_alias(Message):
        content.append(followed.using)
    return Signer(salt=SALT).sign_object(content)


def progress_url(subject: Flow | FlowBuilder | Message, *, expires_in: float | timedelta = DAY) -> str:
    """Return a link to the progress of a flow or message, as JSON. Anybody who has it can read it until it expires.

    Raises what ``progress_token`` raises; ImproperlyConfigured if the project has no place for it.
    """
    token = progress_token(subject, expires_in=expires_in)
    try:
        return reverse("dbqueue:progress", args=[token])
    except NoReverseMatch as error:
        raise ImproperlyConfigured(
            'There is no address for progress links: add path("progress/", include("django_dbqueue.urls")) to the '
            "project's URLs."
        ) from error


def read_token(token: str) -> Followed:
    """Return what a token is about. SignatureExpired if it was ours; BadSignature if it never was."""
    kind, number, until, *elsewhere = Signer(salt=SALT).unsign_object(token)
    if time.time() >= until:
        raise SignatureExpired(f"The link expired at {until}.")
    using = elsewhere[0] if elsewhere else db_alias(Message)
    if using not in connections:
        raise BadSignature(f"The link is about the database {using!r}, which is none of the project's.")
    return Followed(kind, number, using)


def followed_of(subject: object) -> Followed:
    """Return what a link to a flow or message is about; TypeError if it is something else, or was not enqueued."""
    if isinstance(subject, FlowBuilder):
        return Followed(FLOW, subject.id, subject.using)
    if not isinstance(subject, Flow | Message) or subject.pk is None:
        raise TypeError(f"There is progress of a flow or a message that was enqueued, not of {subject!r:.100}.")
    using = subject._state.db or db_alias(type(subject))
    if isinstance(subject, Flow):
        return Followed(FLOW, subject.pk, using)
    deletes = conf.on_ack(subject.queue) == conf.DELETE
    return Followed(DELETED_MESSAGE if deletes else MESSAGE, subject.pk, using)
