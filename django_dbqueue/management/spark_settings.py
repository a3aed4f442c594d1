"""Django's database settings, in the form that the code on Spark expects."""

from __future__ import annotations

import os
from pathlib import Path

from django.db import connections

from django_dbqueue import conf
from django_dbqueue.databases import server_of
from django_dbqueue.management.common_options import Options
from django_dbqueue.spark.credentials import Credentials


def credentials_of(using: str) -> Credentials:
    """Return the credentials of one of Django's databases; UnsupportedDatabase if the queue can't live there."""
    connection = connections[using]
    server = server_of(connection)
    said = connection.settings_dict
    options = {name: said["OPTIONS"][name] for name in server.driver.options if name in said["OPTIONS"]}
    host = said["HOST"] or ""
    if "unix_socket" in server.driver.options and host.startswith("/"):
        options["unix_socket"], host = host, ""
    name = str(said["NAME"])
    return Credentials(
        vendor=connection.vendor,
        name=os.fspath(Path(name).resolve()) if server.is_file else name,
        host=host,
        port=int(said["PORT"]) if said["PORT"] else None,
        user=said["USER"] or "",
        password=said["PASSWORD"] or "",
        options=options,
    )


def told_by_settings(said: Options) -> Options:
    """Return the arguments of a job that enqueues messages, with the values of DBQUEUE where they set none."""
    told = dict(said)
    if "max_payload_bytes" in told and told["max_payload_bytes"] is None:
        told["max_payload_bytes"] = conf.get("MAX_PAYLOAD_BYTES")
    if "priority" in told and told["priority"] is None:
        told["priority"] = conf.queue_options(told["queue"]).priority
    if "group" in told and told["group"] is None:
        told["group"] = conf.queue_options(told["queue"]).group
    return told
