"""Tables under other names pass for ours with Django alone: the check says that the queue's statements miss them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.apps import apps

from django_dbqueue.checks.table_names import check_table_names
from django_dbqueue.databases.own_tables import Tables


def test_each_table_that_the_statements_name_is_one_of_a_model() -> None:
    names = {value for value in vars(Tables).values() if str(value).startswith("django_dbqueue_")}
    assert names <= {model._meta.db_table for model in apps.get_app_config("django_dbqueue").get_models()}
    assert check_table_names() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("command", [["check"], ["run_queue_worker", "--drain"]])
def test_a_prefix_that_a_project_gives_to_all_tables_is_refused(worker_env: dict[str, str], command: list[str]) -> None:
    environment = worker_env | {"DJANGO_SETTINGS_MODULE": "tests.checks.prefixed_settings"}
    done = subprocess.run(
        [sys.executable, "-m", "django", *command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "dbqueue.E025" in done.stderr
    assert "shop_django_dbqueue_message" in done.stderr
    assert "class_prepared" in done.stderr
    assert "Traceback" not in done.stderr
