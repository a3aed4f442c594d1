"""The files to copy are valid by the rules of what reads them, and let a worker end in its time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.core.management import load_command_class

from django_dbqueue.worker.worker_options import EXIT_CUT_OFF
from tests.pages.deploy_files import (
    FOLDER,
    commands,
    grace,
    instructions,
    manifests,
    pod,
    program,
    services,
    unit,
)
from tests.pages.page_project import ROOT

pytestmark = pytest.mark.once
SCHEMAS: dict[str, Any] = json.loads((Path(__file__).parent / "kubernetes-1.34.json").read_text())
"""Kubernetes' own, of 1.34 (Apache-2.0), without their descriptions, and with no word allowed that they don't have."""
KINDS = {"Deployment": "io.k8s.api.apps.v1.Deployment", "Job": "io.k8s.api.batch.v1.Job"}
OF_A_SERVICE = {
    *("build", "command", "depends_on", "environment", "healthcheck", "image", "init", "ports", "restart"),
    *("stop_grace_period", "volumes"),
}


def test_a_page_shows_each_file() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "how-to").glob("*.md"))
    assert [file.name for file in FOLDER.iterdir() if f"<!-- generated: file deploy/{file.name} -->" not in pages] == []


@pytest.mark.parametrize("name", ["shop-worker.service", "shop-worker.conf", "Dockerfile", "worker.yaml"])
def test_each_command_starts_a_worker(name: str) -> None:
    python, manage, command, *options = commands()[name]
    assert (Path(python).name, manage, command) == ("python", "manage.py", "run_queue_worker")
    load_command_class("django_dbqueue", command).create_parser("manage.py", command).parse_args(options)


def test_systemd_lets_handlers_finish_and_starts_the_worker_again() -> None:
    service = unit()["Service"]
    assert float(service["TimeoutStopSec"]) > grace()
    assert service["KillMode"] == "mixed"
    assert service["Restart"] == "always"
    assert service["SuccessExitStatus"] == str(EXIT_CUT_OFF)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
@pytest.mark.parametrize("broken", [False, True])
def test_systemd_takes_the_unit(broken: bool, tmp_path: Path) -> None:
    text = (FOLDER / "shop-worker.service").read_text().replace("/srv/shop/.venv/bin/python", sys.executable)
    file = tmp_path / "shop-worker.service"
    file.write_text(text.replace("KillMode=mixed", "KillMode=sometimes") if broken else text)
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "shop-worker" in line]
    assert bool(ours) is broken, done.stderr


def test_supervisor_lets_handlers_finish_and_starts_the_worker_again() -> None:
    assert float(program()["stopwaitsecs"]) > grace()
    assert program()["autorestart"] == "true"
    assert program()["stopsignal"] == "TERM"
    assert "stopasgroup" not in program()


def test_the_image_runs_the_worker_as_a_user_and_without_a_shell() -> None:
    names = [name for name, _ in instructions()]
    assert set(names) <= {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "CMD"}
    assert (names[0], names[-1]) == ("FROM", "CMD")
    assert isinstance(json.loads(dict(instructions())["CMD"]), list)
    user = dict(instructions())["USER"]
    assert int(user) > 0, "Kubernetes can't tell of a name that it isn't root's"
    assert f"useradd --system --uid {user} " in " ".join(words for name, words in instructions() if name == "RUN")


def test_compose_lets_handlers_finish_and_begins_with_the_tables() -> None:
    for name, service in services().items():
        assert set(service) <= OF_A_SERVICE, name
        assert set(service.get("depends_on", ())) <= set(services()), name
    worker = services()["worker"]
    assert float(worker["stop_grace_period"].removesuffix("s")) > grace()
    assert "command" not in worker, "it is the image's"
    assert worker["init"] is True
    assert worker["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert services()["migrate"]["command"] == ["python", "manage.py", "migrate"]
    health = services()["db"]["healthcheck"]["test"]
    assert "--host" in health, "while it sets the database up, the image's server is ready on its socket alone"


@pytest.mark.parametrize("name", ["worker.yaml", "migrate.yaml"])
def test_kubernetes_takes_the_manifests_and_no_wrong_word(name: str) -> None:
    [manifest] = manifests(name)
    schema = SCHEMAS | {"$ref": f"#/$defs/{KINDS[manifest['kind']]}"}
    jsonschema.validate(manifest, schema)
    manifest["spec"]["template"]["spec"]["terminationGraceSeconds"] = 50
    with pytest.raises(jsonschema.ValidationError, match="terminationGraceSeconds"):
        jsonschema.validate(manifest, schema)


@pytest.mark.parametrize("name", ["worker.yaml", "migrate.yaml"])
def test_pod_security_admits_the_pods_at_its_strictest_level(name: str) -> None:
    """By the table of Kubernetes' Pod Security Standards."""
    [manifest] = manifests(name)
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"] == {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_kubernetes_lets_handlers_finish_and_sends_one_signal() -> None:
    [deployment] = manifests("worker.yaml")
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    [container] = pod()["containers"]
    sleep, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert pod()["terminationGracePeriodSeconds"] > float(seconds) + grace()
    [mount], [volume] = container["volumeMounts"], pod()["volumes"]
    assert mount["name"] == volume["name"]
    assert f"{mount['mountPath']}/alive" in container["args"]
    [job] = manifests("migrate.yaml")
    [migrate] = job["spec"]["template"]["spec"]["containers"]
    assert migrate["command"] == ["python", "manage.py", "migrate"]
    assert migrate["image"] == container["image"]


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("postgresql", {"host", "port", "userName", "dbName", "sslmode", "query", "targetQueryValue"}),
        ("mysql", {"host", "port", "username", "dbName", "query", "queryValue"}),
    ],
)
def test_keda_scales_the_deployment_that_is_there_and_keeps_a_worker(name: str, needs: set[str]) -> None:
    """``needs``: what KEDA's scaler of this name asks for, by its documentation."""
    [deployment] = manifests("worker.yaml")
    authentication, scaled = manifests(f"keda-{name}.yaml")
    spec: dict[str, Any] = scaled["spec"]
    assert spec["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert spec["minReplicaCount"] == 1
    [trigger] = spec["triggers"]
    assert trigger["type"] == name
    assert trigger["metadata"].keys() == needs
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    assert [each["parameter"] for each in authentication["spec"]["secretTargetRef"]] == ["password"]
    assert f"host LIKE '{deployment['metadata']['name']}-%'" in trigger["metadata"]["query"]
