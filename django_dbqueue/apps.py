"""The app: connects its checks, listeners, autocommit fix for MySQL and tracing; a worker finds consumers."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy as _


class DBQueueConfig(AppConfig):
    """``INSTALLED_APPS = [..., "django_dbqueue"]``."""

    name = "django_dbqueue"
    verbose_name = _("Message queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_dbqueue import checks
        from django_dbqueue.consumers import registry
        from django_dbqueue.contrib.otel import switch
        from django_dbqueue.lifecycle import expired_streams
        from django_dbqueue.sessions import autocommit
        from django_dbqueue.tasks import finished_signal
        from django_dbqueue.tasks.sources import task_consumers
        from django_dbqueue.tasks.task_headers import task_named
        from django_dbqueue.tasks.task_schedules import scheduled_tasks
        from django_dbqueue.worker import log_events

        _show_on_the_front_page()
        checks.register()
        log_events.connect()
        autocommit.connect()
        registry.add_source(task_consumers, scheduled_tasks, task_named)
        finished_signal.connect()
        expired_streams.listen_to_deaths()
        switch.connect()


def _show_on_the_front_page() -> None:
    """Give each admin site a front page with a box more, unless it names one of its own.

    It is the class that gets it: a theme may put a site of its own in the place of ``admin.site`` later.
    """
    if apps.is_installed("django.contrib.admin"):
        from django.contrib.admin import AdminSite

        AdminSite.index_template = AdminSite.index_template or "admin/django_dbqueue/index.html"
