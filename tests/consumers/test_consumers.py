"""What the decorator takes, and what it refuses before a single message is claimed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_dbqueue import InvalidMessage, consumer
from django_dbqueue.consumers import registry

pytestmark = pytest.mark.usefixtures("registry")


def handle(message: Any) -> None:
    pass


async def handle_asynchronously(message: Any) -> None:
    pass


def handle_nothing(message: Any) -> Iterator[None]:
    yield


async def handle_nothing_asynchronously(message: Any) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("wrong", [handle_nothing, handle_nothing_asynchronously])
def test_a_handler_with_a_yield_is_refused_for_nothing_of_it_would_run(wrong: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"the consumer of queue 'q', contains a yield"):
        consumer("q")(wrong)
    assert registry.registered() == {}


@pytest.mark.parametrize(
    ("handler", "options", "takes"),
    [
        (lambda: None, {}, "must take the message (too many positional"),
        (lambda _, other: other, {}, "must take the message (missing a required argument: 'other')"),
        (lambda: None, {"batch": 5}, "must take the messages in a list (too many"),
    ],
)
def test_a_handler_that_cannot_be_called_with_a_message_is_refused(handler: Any, options: Any, takes: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=re.escape(takes)):
        consumer("q", **options)(handler)
    assert registry.registered() == {}
    consumer("q", **options)(print)


def test_the_decorator_without_parentheses_is_refused() -> None:
    with pytest.raises(TypeError, match=r'handle.* lacks the queue: write @consumer\("emails"\), with its name'):
        consumer(handle)  # type: ignore[arg-type]


def test_the_consumers_of_the_project_are_found_before_a_test_can_hide_them() -> None:
    """Their modules register when they are first imported; into a test's own registry, they would go with the test."""
    registry.autodiscover()
    assert registry.registered() == {}


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="consumer of queue 'q' must be a function, not 5"):
        consumer("q")(5)  # type: ignore[type-var]
    assert registry.registered() == {}


def test_a_handler_without_a_name_is_called_by_its_repr() -> None:
    handler = partial(handle)
    consumer("q")(handler)
    assert "handle" in registry.registered()["q"].name
    with pytest.raises(ImproperlyConfigured, match="Queue 'q' has two consumers"):
        consumer("q")(partial(handle_asynchronously))


@pytest.mark.parametrize("wrong", [0, 0.0, 1e-9, -1, True, float("nan"), float("inf"), "60", 10**400])
def test_a_lease_lasts_longer_than_nothing(wrong: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"lease.* must be"):
        consumer("q", lease=wrong)


def test_a_consumer_is_transactional_only_if_declared() -> None:
    consumer("plain")(handle)
    consumer("careful", transactional=True)(handle)
    found = registry.registered()
    assert (found["plain"].transactional, found["careful"].transactional) == (False, True)


@pytest.mark.parametrize("wrong", ["yes", 1, 0, None, []], ids=repr)
def test_transactional_is_true_or_false_and_nothing_like_it(wrong: Any) -> None:
    with pytest.raises(InvalidMessage, match="transactional of the consumer of 'q' must be True or False"):
        consumer("q", transactional=wrong)
    assert registry.registered() == {}


def test_an_async_handler_cannot_be_transactional() -> None:
    with pytest.raises(ImproperlyConfigured, match="async and can't be transactional"):
        consumer("q", transactional=True)(handle_asynchronously)
    assert registry.registered() == {}
    consumer("q")(handle_asynchronously)


def make_nothing() -> None:
    """What a resource may be, as far as its decorator sees."""


async def use(message: Any, thing: Any) -> None:
    await handle_asynchronously(message)


def test_a_resource_is_what_its_consumer_gets_besides_the_message() -> None:
    consumer("q", resource=make_nothing)(use)
    assert registry.registered()["q"].resource is make_nothing


@pytest.mark.parametrize(
    ("resource", "handler", "why"),
    [
        (make_nothing, handle, "has a resource, so it must be async: write it as async def"),
        (make_nothing, handle_asynchronously, "must take the message and its resource as second argument"),
        (5, use, "has the resource 5: give a function that returns an async context manager"),
        (handle_asynchronously, use, "give a function that returns an async context manager, or an async generator"),
    ],
)
def test_a_resource_that_can_not_be_used_is_refused(resource: Any, handler: Any, why: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=why):
        consumer("q", resource=resource)(handler)
    assert registry.registered() == {}


def test_a_consumer_gets_a_list_only_if_declared() -> None:
    consumer("one")(handle)
    consumer("many", batch=900, batch_wait=timedelta(seconds=2))(handle)
    found = registry.registered()
    assert (found["one"].batch, found["many"].batch, found["many"].batch_wait) == (None, 900, 2.0)


@pytest.mark.parametrize("wrong", [0, -1, 901, 5.0, True, "5"], ids=repr)
def test_a_batch_is_a_whole_number_that_one_statement_settles(wrong: Any) -> None:
    with pytest.raises(InvalidMessage, match="batch of the consumer of 'q' must be a whole number from 1 to 900"):
        consumer("q", batch=wrong)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch": 5, "batch_wait": 61}, "batch_wait of the consumer of 'q' must be from 0 to 60 seconds, not 61"),
        ({"batch": 5, "batch_wait": -1}, "batch_wait of the consumer of 'q' must be from 0"),
        ({"batch": 5, "batch_wait": "1"}, "batch_wait of the consumer of 'q' must be a number of seconds"),
        ({"batch_wait": 1}, "batch_wait of the consumer of 'q' needs batch too"),
    ],
)
def test_a_list_waits_for_a_minute_at_most(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidMessage, match=why):
        consumer("q", **options)
    assert registry.registered() == {}


def test_an_async_handler_gets_no_list() -> None:
    with pytest.raises(ImproperlyConfigured, match="async and can't have a batch"):
        consumer("q", batch=5)(handle_asynchronously)
    assert registry.registered() == {}
