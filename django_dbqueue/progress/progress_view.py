"""The page behind a signed link: how far one flow or message is, as JSON."""

from __future__ import annotations

import logging

from django.contrib.auth.decorators import login_not_required
from django.core.signing import BadSignature, SignatureExpired
from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _

from django_dbqueue.progress.how_far import how_far
from django_dbqueue.progress.links import read_token

logger = logging.getLogger("django_dbqueue")


@login_not_required
def progress(request: HttpRequest, token: str) -> HttpResponse:
    """Answer GET and HEAD: ``{finished, dead, left, total, exact, over, eta, poll, text}``.

    403 if the link has expired, 404 if it is no link of ours or what it is about is gone, 503 if the database can't be
    read: each with ``{error}``, a sentence.
    """
    if request.method not in ("GET", "HEAD"):
        return HttpResponse(status=405, headers={"Allow": "GET, HEAD"})
    try:
        seen = how_far(read_token(token))
    except SignatureExpired:
        return _error(403, _("This link has expired."))
    except BadSignature:
        return _error(404, _("There is no progress to show under this link."))
    except Error:
        logger.exception("the queue's database can't be read for a progress link")
        return _error(503, _("The progress can't be read now; it continues all the same."))
    if seen is None:
        return _error(404, _("There is no progress to show under this link."))
    return _answer(seen.document(), 200)


def _error(status: int, text: str) -> JsonResponse:
    return _answer({"error": text}, status)


def _answer(document: dict[str, object], status: int) -> JsonResponse:
    return JsonResponse(document, status=status, headers={"Cache-Control": "no-store"})
