"""``queue_import django-celery-beat``: print schedules as entries for the settings, and why others can't be."""

from __future__ import annotations

import json
from pprint import pformat
from typing import TYPE_CHECKING

from django.core.management.base import OutputWrapper
from django.utils.translation import gettext as _

from django_dbqueue.importers.celery_beat import Schedules
from django_dbqueue.management.console import plain

if TYPE_CHECKING:
    from django_dbqueue.codecs import Json


def print_schedules(found: Schedules, out: OutputWrapper, err: OutputWrapper, *, as_json: bool) -> None:
    """Print the entries to one stream, and the reasons to the other; or all of it as JSON."""
    if as_json:
        reasons: list[Json] = [{"name": name, "why": why} for name, why in found.reasons.items()]
        out.write(json.dumps({"source": "django-celery-beat", "schedules": found.entries, "reasons": reasons}))
        return
    out.write('DBQUEUE["SCHEDULES"] = ' + pformat(found.entries, sort_dicts=False, width=118))
    for name, why in found.reasons.items():
        err.write(_("Not carried over: %(name)s. %(why)s") % {"name": plain(name), "why": plain(why)})
