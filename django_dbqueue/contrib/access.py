"""Who may see monitoring pages: who knows the token, or has the permission."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from django.contrib.auth.decorators import login_not_required
from django.db import Error, connections, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from django_dbqueue import conf

logger = logging.getLogger("django_dbqueue")

PERMISSION: Final = "django_dbqueue.view_queuestatistic"
View = Callable[..., HttpResponseBase]


def for_monitors(*, without_database: Callable[[], HttpResponseBase]) -> Callable[[View], View]:
    """Let a view answer GET and HEAD: with ``DBQUEUE["MONITOR_TOKEN"]`` as bearer token, or with the permission.

    ``LoginRequiredMiddleware`` leaves it alone: a monitor with a token has no session, and can't read a login page. So
    does ``ATOMIC_REQUESTS``, whose transaction begins before the view. ``without_database`` answers where the database
    of sessions and users can't be read.
    """

    def guard(view: View) -> View:
        @login_not_required
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method not in ("GET", "HEAD"):
                return HttpResponse(status=405, headers={"Allow": "GET, HEAD"})
            try:
                may_see = _may_see(request)
            except Error:
                logger.exception("the database of sessions and users can't be read for a monitor's request")
                response = without_database()
            else:
                response = view(request, *args, **kwargs) if may_see else _refusal()
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        for alias in connections:
            transaction.non_atomic_requests(using=alias)(guarded)
        return guarded

    return guard


def _refusal() -> HttpResponse:
    return HttpResponse(
        _("Send the token of DBQUEUE['MONITOR_TOKEN'], or sign in with the permission %(name)s.") % {"name": PERMISSION}
        + "\n",
        content_type="text/plain; charset=utf-8",
        status=401,
        headers={"WWW-Authenticate": 'Bearer realm="django_dbqueue"'},
    )


def _may_see(request: HttpRequest) -> bool:
    token = conf.get("MONITOR_TOKEN")
    scheme, _space, given = request.headers.get("Authorization", "").partition(" ")
    if token and scheme.lower() == "bearer" and constant_time_compare(given.strip(), token):
        return True
    user = getattr(request, "user", None)  # there is none without the middleware
    return user is not None and bool(user.has_perm(PERMISSION))
