"""What the fixture ``dbqueue`` provides: the verbs of this package on one object."""

from __future__ import annotations

from typing import Any

from django_dbqueue.models import Message
from django_dbqueue.testing.enqueued import assert_enqueued, refute_enqueued
from django_dbqueue.testing.run import run_consumers


class DBQueueFixture:
    """Run consumers, check what was enqueued, and make messages; the functions of ``django_dbqueue.testing``."""

    run_consumers = staticmethod(run_consumers)
    assert_enqueued = staticmethod(assert_enqueued)
    refute_enqueued = staticmethod(refute_enqueued)

    def message(self, **given: Any) -> Message:
        """Make a message by ``MessageFactory``, which needs factory-boy: ``message(queue="emails", state="dead")``."""
        from django_dbqueue.testing.factories import MessageFactory

        message: Message = MessageFactory.create(**given)
        return message
