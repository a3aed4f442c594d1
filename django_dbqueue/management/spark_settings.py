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
    configured = connection.settings_dict
    options = {name: configured["OPTIONS"][name] for name in server.driver.options if name in configured["OPTIONS"]}
    host = configured["HOST"] or ""
    if "unix_socket" in server.driver.options and host.startswith("/"):
        options["unix_socket"], host = host, ""
    name = str(configured["NAME"])
    return Credentials(
        vendor=connection.vendor,
        name=os.fspath(Path(name).resolve()) if server.is_file else name,
        host=host,
        port=int(configured["PORT"]) if configured["PORT"] else None,
        user=configured["USER"] or "",
        password=configured["PASSWORD"] or "",
        options=options,
    )


def with_settings(options: Options) -> Options:
    """Return the arguments of a job that enqueues messages, with the values of DBQUEUE where they set none."""
    filled = dict(options)
    if "max_payload_bytes" in filled and filled["max_payload_bytes"] is None:
        filled["max_payload_bytes"] = conf.get("MAX_PAYLOAD_BYTES")
    if "priority" in filled and filled["priority"] is None:
        filled["priority"] = conf.queue_options(filled["queue"]).priority
    if "group" in filled and filled["group"] is None:
        filled["group"] = conf.queue_options(filled["queue"]).group
    return filled
