"""The files to copy in ``docs/deploy``, read as what reads them does."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from typing import Any

import yaml
from django.core.management import load_command_class

from tests.pages.page_project import ROOT

FOLDER = ROOT / "docs" / "deploy"


def unit() -> configparser.ConfigParser:
    return _ini("shop-worker.service")


def program() -> Any:
    return _ini("shop-worker.conf")["program:shop-worker"]


def _ini(name: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=True)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string((FOLDER / name).read_text())
    return parsed


def manifests(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def services() -> dict[str, Any]:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]  # type: ignore[no-any-return]


def pod() -> Any:
    return manifests("worker.yaml")[0]["spec"]["template"]["spec"]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's: what to do, and with what."""
    lines = re.sub(r"\\\n", "", (FOLDER / "Dockerfile").read_text()).splitlines()
    found = [line.partition(" ") for line in lines if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in found]


def commands() -> dict[str, list[str]]:
    """How each file starts a worker, in words."""
    [container] = pod()["containers"]
    return {
        "shop-worker.service": shlex.split(unit()["Service"]["ExecStart"]),
        "shop-worker.conf": shlex.split(program()["command"]),
        "Dockerfile": json.loads(dict(instructions())["CMD"]),
        "worker.yaml": container["command"] + container["args"],
    }


def grace() -> float:
    """Seconds that a worker takes to stop at most, as these files start it: none of them has an option for that."""
    assert not any("--grace" in words for words in commands().values())
    parser = load_command_class("django_dbqueue", "run_queue_worker").create_parser("manage.py", "run_queue_worker")
    return float(parser.get_default("grace"))
