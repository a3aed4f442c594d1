"""What ``DBQUEUE`` says holds for what ``queue_pipeline ingest`` enqueues too, though Spark knows no settings."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue.management.spark_settings import with_settings


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"priority": None, "max_payload_bytes": None}, {"priority": 7, "max_payload_bytes": 5000}),
        ({"priority": 0, "max_payload_bytes": 10}, {"priority": 0, "max_payload_bytes": 10}),
    ],
)
@override_settings(DBQUEUE={"MAX_PAYLOAD_BYTES": 5000, "QUEUES": {"flights": {"priority": 7}}})
def test_settings_fill_in_what_the_command_line_leaves_out(given: dict[str, Any], filled: dict[str, Any]) -> None:
    assert with_settings({"queue": "flights", **given}) == {"queue": "flights", **filled}


def test_a_job_that_takes_no_such_arguments_is_given_none() -> None:
    assert with_settings({"lake": "there"}) == {"lake": "there"}
