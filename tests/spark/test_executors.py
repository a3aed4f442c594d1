"""What executors run needs no Django, and Spark finds the data source by itself: tried in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from django_dbqueue.models import Message
from tests.conftest import ROOT
from tests.patience import patience

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.django_db(transaction=True)]

# Python imports it at the start of every process, so also in the workers that Spark starts
NO_DJANGO = """
import sys

class NoDjango:
    def find_spec(self, name, path=None, target=None):
        if name == "django" or name.startswith("django."):
            raise ImportError(f"{name} is not on executors")

sys.meta_path.insert(0, NoDjango())
"""

PROGRAM = """
import importlib, os, pkgutil, sys

import django_dbqueue.spark
for package in (django_dbqueue.spark,):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
try:
    import django
except ImportError:
    pass
else:
    raise SystemExit("Django can be imported, so this tests nothing")

from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "512m").getOrCreate()
)
credentials = {"credentials_file": sys.argv[1]}
rows = spark.createDataFrame([("written by Spark", "out")], "payload string, queue string")
rows.write.format("dbqueue").mode("append").options(**credentials, job_id="no-django").save()
frame = spark.read.format("dbqueue").options(**credentials).load()
print("READ", sorted(row.body for row in frame.where("status = 'n'").collect()))
spark.stop()
"""


def test_the_data_source_is_found_by_spark_and_works_without_django(credentials_file: str, tmp_path: Path) -> None:
    Message.objects.enqueue("written by Django", queue="in")
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(NO_DJANGO)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, str(program), credentials_file],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(240),
    )
    assert ran.returncode == 0, ran.stderr
    [line_read] = [line for line in ran.stdout.splitlines() if line.startswith("READ ")]
    assert line_read == "READ " + str(["written by Django", "written by Spark"])
