from __future__ import annotations

from django.conf import settings

from django_dbqueue.worker import heartbeat, maintenance, pace, rest

pace.LATELY = 1.0  # type: ignore[misc]
heartbeat.BEAT_IDLE = 1  # type: ignore[misc]
heartbeat._LONG = maintenance.LONG = 0.0  # type: ignore[misc]
rest.STIRRED = 1.0  # type: ignore[misc]
rest.NOTIFIED = settings.SELDOM  # type: ignore[misc]
