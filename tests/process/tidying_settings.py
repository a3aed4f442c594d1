"""For workers whose children tidy every few seconds, not once a minute."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403


def _tidy_sooner() -> None:
    from django_dbqueue.worker import maintenance

    maintenance.TIDY_EVERY = 10.0


os.register_at_fork(after_in_child=_tidy_sooner)
