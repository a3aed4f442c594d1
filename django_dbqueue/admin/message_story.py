"""What the page of a message shows besides its columns: why it is stuck, what can be done, and its life."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from django_dbqueue.admin.confirmation import Confirmation
from django_dbqueue.admin.lifeline import Life, life_of
from django_dbqueue.admin.pause_pages import Pausing
from django_dbqueue.admin.state_words import applies
from django_dbqueue.admin.step_pages import steps_of
from django_dbqueue.consumers.registry import has_consumer
from django_dbqueue.insight.why import Why, why
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.redaction.policy import error_text


def why_of(model_admin: Any, request: HttpRequest, message: Any) -> dict[str, object]:
    """Return the template's data on why a message is where it is."""
    answer = why(message, now=message.db_now, has_consumer=has_consumer)
    error = error_text(answer.error, of=message, sees_payload=model_admin.sees_payload(request))
    return {
        "answer": answer,
        "error": next(iter(error.strip().splitlines()), ""),
        "buttons": _buttons(model_admin, request, message, answer),
    }


def _buttons(model_admin: Any, request: HttpRequest, message: Any, answer: Why) -> list[dict[str, Any]]:
    """Return the applicable verbs for which this user has the permission."""
    confirmation, found = Confirmation(model_admin), list[dict[str, Any]]()
    if answer.behind is not None:
        url = reverse(
            "admin:django_dbqueue_message_change", args=[answer.behind], current_app=model_admin.admin_site.name
        )
        found.append({"name": "behind", "label": _("Open #%(id)s") % {"id": answer.behind}, "url": url})
    for name in answer.verbs:
        if name == "resume":
            if request.user.has_perms(["django_dbqueue.view_queue", "django_dbqueue.pause_queue"]):
                site = model_admin.admin_site.name
                url = reverse("admin:django_dbqueue_queue_resume", args=[quote(message.queue)], current_app=site)
                found.append({"name": name, "label": Pausing.LABELS["resume"], "url": url})
            continue
        if name == "resume_group":
            if request.user.has_perms(["django_dbqueue.view_group", "django_dbqueue.pause_queue"]):
                key = quote(f"{message.queue}/{message.group_name}")
                url = reverse("admin:django_dbqueue_group_resume", args=[key], current_app=model_admin.admin_site.name)
                found.append({"name": "resume", "label": _("Resume the group"), "url": url})
            continue
        verb = VERBS[name]
        if applies(verb, message, message.db_now) and confirmation.allowed(request, verb):
            found.append({"name": name, "label": verb.label, "url": model_admin.verb_url(request, verb, message)})
    return found


def life(model_admin: Any, request: HttpRequest, message: Message | ArchivedMessage, message_id: int) -> Life:
    """Return the life of a message, or of an archived one, as this user may see it."""
    sees = model_admin.sees_payload(request)
    return life_of(
        message,
        message_id,
        using=model_admin.alias,
        shown=lambda text: error_text(text, of=message, sees_payload=sees),
        steps=steps_of(model_admin, request, message, sees_payload=sees) if isinstance(message, Message) else (),
    )
