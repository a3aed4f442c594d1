"""For the tests of projects that use the queue: run consumers, and check what was enqueued.

They work in Django's ``TestCase``, inside its transaction, in ``TransactionTestCase``, and under pytest with the
fixture ``dbqueue``. ``docs/testing.md`` shows examples. The names below are imported on first use, since pytest reads
its plugins before Django is set up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_dbqueue.lazy_names import names_on_first_use

if TYPE_CHECKING:
    from django_dbqueue.testing.containment import LostTransaction as LostTransaction
    from django_dbqueue.testing.drained import Drained as Drained
    from django_dbqueue.testing.drained import EndlessRun as EndlessRun
    from django_dbqueue.testing.drained import Handled as Handled
    from django_dbqueue.testing.enqueued import assert_enqueued as assert_enqueued
    from django_dbqueue.testing.enqueued import refute_enqueued as refute_enqueued
    from django_dbqueue.testing.factories import MessageFactory as MessageFactory
    from django_dbqueue.testing.fixture import DBQueueFixture as DBQueueFixture
    from django_dbqueue.testing.run import run_consumers as run_consumers

__getattr__, __dir__, __all__ = names_on_first_use(
    __name__,
    {
        "run": ("run_consumers",),
        "drained": ("Drained", "EndlessRun", "Handled"),
        "enqueued": ("assert_enqueued", "refute_enqueued"),
        "containment": ("LostTransaction",),
        "fixture": ("DBQueueFixture",),
        "factories": ("MessageFactory",),
    },
)
