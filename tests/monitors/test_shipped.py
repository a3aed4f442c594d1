"""What is shipped for Grafana and Prometheus loads, and names only what the page shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.factories import dead, done
from tests.insight.passing import begin, count, let_pass
from tests.test_docs import _anchors

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]
ROOT = Path(__file__).resolve().parents[2]
SHIPPED = files("django_dbqueue.contrib") / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((SHIPPED / "grafana-dashboard.json").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load((SHIPPED / "alert-rules.yml").read_text())["groups"][0]["rules"]
EXPRESSIONS = {
    **{f"panel {panel['title']}": target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]},
    **{f"alert {rule['alert']}": rule["expr"] for rule in RULES},
}
VARIABLES = {"$__rate_interval": "5m", "$queue": "q"}


def selectors(node: Any) -> Iterator[Any]:
    """Return the selectors of series in a parsed expression."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    elif isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector
    else:
        for name in ("expr", "lhs", "rhs"):
            if (part := getattr(node, name, None)) is not None:
                yield from selectors(part)
        for part in getattr(node, "args", None) or ():
            yield from selectors(part)


@pytest.fixture
def shown(scrape: Callable[[], Any]) -> dict[str, set[str]]:
    """The labels of every series that a page shows, by name."""
    begin()
    done()
    dead()
    let_pass(timedelta(minutes=1))
    count()
    found: dict[str, set[str]] = {}
    for family in scrape().families.values():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_is_promql_of_series_and_labels_that_the_page_shows(
    name: str, shown: dict[str, set[str]]
) -> None:
    text = EXPRESSIONS[name]
    for variable, value in VARIABLES.items():
        text = text.replace(variable, value)
    used = list(selectors(promql_parser.parse(text)))
    assert used
    for selector in used:
        assert selector.name in shown, selector.name
        assert {matcher.name for matcher in selector.matchers.matchers} <= shown[selector.name]


def test_every_series_of_the_page_but_the_sums_is_on_the_dashboard_or_watched(shown: dict[str, set[str]]) -> None:
    used = {name for text in EXPRESSIONS.values() for name in re.findall(r"\bdbqueue_\w+", text)}
    helpers = {name for name in shown if re.search("_(sum|count|capped)$", name)}
    assert shown.keys() - used - helpers == set()


def test_the_dashboard_has_what_grafana_needs_to_load_it() -> None:
    assert DASHBOARD["uid"]
    assert DASHBOARD["title"]
    assert DASHBOARD["schemaVersion"] >= 36
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) >= 12
    used: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        assert panel["type"] in {"stat", "timeseries", "table"}
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & used, panel["title"]
        used |= cells
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "queue"]


def test_every_alert_names_what_is_wrong_and_has_a_section_in_the_runbook() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"].endswith(".")
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/runbook.md"
        assert anchor == rule["alert"].lower()
        assert anchor in _anchors(runbook)
        section = runbook.partition(f"\n## {rule['alert']}\n")[2].partition("\n## ")[0]
        for part in ("**What it means.**", "**What to look at.**", "**What to do.**"):
            assert part in section, rule["alert"]
    assert re.findall(r"^## (DBQueue\w+)$", runbook, re.MULTILINE) == names


def test_durations_of_rules_are_prometheus_own() -> None:
    for rule in RULES:
        if "for" in rule:
            assert promql_parser.parse_duration(rule["for"])
