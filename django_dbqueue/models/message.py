"""The one hot table. DESIGN of a row: ``docs/state-machine.md``; who may move it: ``lifecycle/``."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_dbqueue.models.message_row import MessageRow
from django_dbqueue.models.querysets import MessageManager
from django_dbqueue.statuses import DONE, NEW, RUNNING, STATUSES


class Message(MessageRow):
    """A message and its state.

    *waiting*: n, until its group lets it run, or an event comes · *delayed*: n, due later · *ready*: n, due ·
    *running*: run, deadline ahead · *stuck*: run, deadline passed · *done*: y · *dead*: n without ``available_at``.
    """

    objects: ClassVar = MessageManager()

    class Meta:
        verbose_name = pgettext_lazy("queue", "message")
        verbose_name_plural = pgettext_lazy("queue", "messages")
        default_permissions = ("view",)
        permissions = (
            ("requeue_message", _("Can requeue messages")),
            ("hasten_message", _("Can make messages due now")),
            ("release_message", _("Can release messages")),
            ("cancel_message", _("Can cancel messages")),
            ("reject_message", _("Can reject messages")),
            ("resend_message", _("Can send messages again")),
            ("edit_message", _("Can send messages anew with an edited payload")),
            ("move_message", _("Can move messages to another queue")),
            ("drop_message", _("Can drop messages")),
            ("view_payload", _("Can see payloads")),
        )
        indexes = (models.Index(fields=("queue", "status", "priority", "available_at", "id"), name="dbqueue_claim"),)
        constraints = (
            models.UniqueConstraint(fields=("key_hash", "live"), name="dbqueue_live_key"),
            models.CheckConstraint(condition=Q(status__in=STATUSES), name="dbqueue_status"),
            models.CheckConstraint(
                condition=~Q(status=RUNNING)
                | Q(claim_token__isnull=False, claimed_at__isnull=False, available_at__isnull=False),
                name="dbqueue_run_has_claim",
            ),
            models.CheckConstraint(
                condition=~Q(status=DONE) | Q(finished_at__isnull=False), name="dbqueue_done_has_end"
            ),
            models.CheckConstraint(
                condition=~Q(status=NEW) | Q(available_at__isnull=False) | Q(finished_at__isnull=False),
                name="dbqueue_dead_has_end",
            ),
        )
