"""Who may do what, asked of every URL that the app has in the admin, also of those that come later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.admin.crawl import HOME, Place, crawl, places
from tests.admin.world import fill

pytestmark = [pytest.mark.django_db, pytest.mark.once]

VIEWS = ("_changelist", "_change", "_history")
"""The ends of the names of pages that every ModelAdmin has, and that change nothing here."""
MORE_VIEWS = {"django_dbqueue_queue_figures"}
"""The names of our own pages that only show something to those who may look."""


@pytest.fixture
def world(operator: User) -> None:
    fill(["x"])


def everything() -> dict[str, list[dict[str, Any]]]:
    """Every row of the app, and of the admin's log."""
    models = [*apps.get_app_config("django_dbqueue").get_models(), LogEntry]
    return {model.__name__: list(model._base_manager.order_by("pk").values()) for model in models}


def permissions(*, of_views: bool) -> list[str]:
    """The codenames of what lets people look, or of all the rest."""
    names = Permission.objects.filter(content_type__app_label="django_dbqueue").values_list("codename", flat=True)
    return [name for name in names if name.startswith("view_") == of_views]


def form_of(place: Place) -> dict[str, Any]:
    """What somebody would send by hand, who knows the forms."""
    return {
        "reason": "x",
        "post": "yes",
        "confirm": "yes",
        "message": "1::dead:0",
        "queue": "00x/1/",
        "action": place.name,
    }


def acts() -> list[Place]:
    """The URLs of actions: all that are no page to look at."""
    return [place for place in places() if not place.name.endswith(VIEWS) and place.name not in MORE_VIEWS]


def test_strangers_are_sent_to_the_login_page_from_every_url(world: None) -> None:
    before = everything()
    for place in [Place("home", HOME), *places()]:
        for response in (Client().get(place.path), Client().post(place.path, form_of(place))):
            assert response.status_code == 302, place
            assert "/login/" in response["Location"], place
    assert everything() == before


def test_who_is_no_staff_is_sent_to_the_login_page_too(world: None, client_with: Callable[..., Client]) -> None:
    from django.contrib.auth.models import User

    client = client_with(*permissions(of_views=True), *permissions(of_views=False))
    User.objects.filter(is_superuser=False).update(is_staff=False)
    for place in places():
        assert "/login/" in client.get(place.path)["Location"], place


def test_staff_without_permissions_get_403_from_every_url(world: None, client_with: Callable[..., Client]) -> None:
    client, before = client_with(), everything()
    for place in places():
        assert client.get(place.path).status_code in {403, 405}, place
        assert client.post(place.path, form_of(place)).status_code in {403, 405}, place
        assert 403 in {client.get(place.path).status_code, client.post(place.path).status_code}, place
    assert everything() == before


def test_who_may_only_view_gets_403_from_every_action(world: None, client_with: Callable[..., Client]) -> None:
    client, before = client_with(*(name for name in permissions(of_views=True) if name != "view_payload")), everything()
    assert len(acts()) > 20
    for place in acts():
        answers = [client.get(place.path).status_code, client.post(place.path, form_of(place)).status_code]
        assert set(answers) <= {403, 405}, place
        assert 403 in answers, place
    assert everything() == before


def test_who_may_act_but_not_view_gets_403_from_every_url(world: None, client_with: Callable[..., Client]) -> None:
    client, before = client_with(*permissions(of_views=False)), everything()
    for place in places():
        assert client.get(place.path).status_code in {403, 405}, place
        assert client.post(place.path, form_of(place)).status_code in {403, 405}, place
    assert everything() == before


def test_no_get_changes_anything(world: None, browser: Client) -> None:
    before = everything()
    visits = crawl(browser, each=2)
    assert {visit.status for visit in visits} <= {200, 302, 403, 405}
    for place in places():
        browser.head(place.path)
        browser.get(place.path, form_of(place))
    assert everything() == before


def test_every_post_needs_the_csrf_token(world: None, operator: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    before = everything()
    for place in places():
        assert client.post(place.path, form_of(place)).status_code == 403, place
    assert everything() == before


def test_nothing_but_schedules_is_added_or_deleted_by_anybody(world: None, browser: Client) -> None:
    before = everything()
    for place in places():
        if place.name.endswith(("_add", "_delete")) and "_schedule_" not in place.name:
            assert browser.get(place.path).status_code == 403, place
            assert browser.post(place.path, form_of(place)).status_code == 403, place
    assert everything() == before
