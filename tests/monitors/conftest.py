from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client, override_settings
from prometheus_client.openmetrics.parser import text_string_to_metric_families

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def monitor() -> Iterator[Client]:
    """A client that knows the token."""
    with override_settings(DBQUEUE={"MONITOR_TOKEN": TOKEN}):
        yield Client(headers={"Authorization": f"Bearer {TOKEN}"})


class Scrape:
    """A page, read by Prometheus' own parser of OpenMetrics."""

    def __init__(self, client: Client) -> None:
        self.response: Any = client.get("/metrics")
        assert self.response.status_code == 200, self.response.content
        self.text = self.response.content.decode()
        self.families = {family.name: family for family in text_string_to_metric_families(self.text)}

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of one sample; None if there is none."""
        found = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        assert len(found) <= 1, (name, labels)
        return found[0] if found else None


@pytest.fixture
def scrape(monitor: Client) -> Any:
    """Scrape once."""
    return lambda: Scrape(monitor)
