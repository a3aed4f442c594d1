"""What the documentation says to be tested is what the CI's matrix runs, and docker-compose.yml starts some of it."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

pytestmark = pytest.mark.once
JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
DEBIAN: list[dict[str, str]] = JOBS["debian"]["strategy"]["matrix"]["include"]


def versions() -> dict[str, tuple[str, list[str]]]:
    """The oldest version, and those that are tested, as the page has them."""
    page = (ROOT / "docs/databases.md").read_text()
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d., ]+) \|$", page, re.M)
    return {name.lower(): (oldest, tested.split(", ")) for name, oldest, tested in rows}


@pytest.mark.parametrize("name", ["python", "django", "mariadb", "postgresql", "sqlite"])
def test_the_page_names_the_versions_of_the_matrix(name: str) -> None:
    run = sorted({job[name] for job in DEBIAN}, key=lambda version: [int(part) for part in version.split(".")])
    assert versions()[name][1] == run


def test_the_page_names_the_mysql_versions_that_run_as_services() -> None:
    assert versions()["mysql"][1] == JOBS["mysql"]["strategy"]["matrix"]["mysql"]


def test_the_package_names_the_versions_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest, pythons = versions()["python"]
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: Python :: 3." in each]
    assert named == pythons
    djangos = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: Django :: " in each]
    assert djangos == versions()["django"][1]
    assert project["requires-python"] == f">={oldest}"
    assert project["dependencies"] == [f"Django>={versions()['django'][0]}"]


def test_docker_compose_starts_versions_that_are_tested() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    images = dict(service["image"].split(":") for service in services.values())
    assert set(images) == {"mysql", "mariadb", "postgres"}
    for name, version in images.items():
        assert version in versions()[{"postgres": "postgresql"}.get(name, name)][1]


def test_each_debian_is_the_one_that_has_these_servers() -> None:
    has = {(job["debian"], job["mariadb"], job["postgresql"], job["sqlite"]) for job in DEBIAN}
    assert has == {("bookworm", "10.11", "15", "3.40"), ("trixie", "11.8", "17", "3.46")}
    newest = {job["python"]: job["debian"] for job in DEBIAN}
    assert newest["3.13"] == newest["3.14"] == "trixie"


def test_the_hosted_night_runs_each_part_of_the_night_but_bare_debians() -> None:
    """Those are the matrix of a job of their own."""
    every = re.search(r"^every=\((.*)\)$", (ROOT / "bin/nightly").read_text(), re.M)
    assert every is not None
    parts = [part for part in every[1].split() if not part.startswith("debian")]
    assert sorted(JOBS["night"]["strategy"]["matrix"]["part"]) == sorted(parts)
