"""For workers whose sessions take no writes, as after a failover that left them with the replica."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, TEST_DATABASE

_OPTIONS = DATABASES["default"]["OPTIONS"]
if TEST_DATABASE == "postgres":
    _OPTIONS["options"] = "-c default_transaction_read_only=on"
elif TEST_DATABASE == "sqlite":
    _OPTIONS["init_command"] += "; PRAGMA query_only = 1"
else:
    _OPTIONS["init_command"] = "SET SESSION TRANSACTION READ ONLY"
