"""Content types and permissions outlive the flush after a test that commits, instead of being made anew by it."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.management import create_contenttypes
from django.contrib.contenttypes.models import ContentType
from django.db.models.signals import post_migrate


def keep_permissions() -> None:
    """From now on whatever is migrated or flushed gets the rows that are there now.

    Django would ask for and make them model by model: half of the time of a short test.
    """
    kept = [(model, list(model._default_manager.all())) for model in (ContentType, Permission)]

    def put_back(sender: AppConfig, using: str, **said: Any) -> None:
        if sender is not _first_app():
            return
        _make_none_anew()  # a test that changes INSTALLED_APPS has connected them again
        ContentType.objects.clear_cache()
        for model, rows in kept:
            model._default_manager.using(using).bulk_create(rows, ignore_conflicts=True)

    _make_none_anew()
    post_migrate.connect(put_back, weak=False)


def _first_app() -> AppConfig:
    return next(app for app in apps.get_app_configs() if app.models_module)


def _make_none_anew() -> None:
    post_migrate.disconnect(create_contenttypes)
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
