"""Where the database is and who asks: read from a file or the environment, never from an option.

Options travel in plans, pickles and notebooks, and another version of Spark may print them; so they only name the
place where the credentials stand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from django_dbqueue.exceptions import InvalidPipeline

FILE_OPTION: Final = "credentials_file"
ENVIRONMENT_OPTION: Final = "credentials_env"
REFUSED: Final = ("password", "passwd", "user", "username", "url", "dburl", "host", "database", "dbname")
"""Options by which other sources take credentials."""
_VENDORS: Final = {
    "mysql": "mysql",
    "mariadb": "mysql",
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "sqlite": "sqlite",
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """A database and an account on it. ``vendor`` is mysql (MariaDB too), postgresql or sqlite; ``name`` its database.

    ``options`` go to the driver as they are (MySQLdb, psycopg): certificates, time-outs, a socket.
    """

    vendor: str
    name: str
    host: str = ""
    port: int | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, options: Mapping[str, str]) -> Credentials:
        """Read what the options name; InvalidPipeline where they name nothing, or say a secret themselves."""
        said = {name.lower(): value for name, value in options.items()}
        if told := sorted(set(said) & set(REFUSED)):
            raise InvalidPipeline(
                f"The option {told[0]!r} would travel in plans and logs. Write the credentials to a file that only "
                f"you can read and name it by the option {FILE_OPTION!r}, or name an environment variable that holds "
                f"them by {ENVIRONMENT_OPTION!r}."
            )
        if (file := said.get(FILE_OPTION)) is not None:
            return cls.parse(_text_of(file), where=f"the file {file}")
        if (variable := said.get(ENVIRONMENT_OPTION)) is not None:
            if variable not in os.environ:
                raise InvalidPipeline(
                    f"The environment variable {variable!r}, which {ENVIRONMENT_OPTION!r} names, is not set here. On a "
                    f"cluster every executor needs it: set spark.executorEnv.{variable}, or use {FILE_OPTION!r}."
                )
            return cls.parse(os.environ[variable], where=f"the environment variable {variable}")
        raise InvalidPipeline(
            f"Say where the database's credentials are: the option {FILE_OPTION!r} names a file, "
            f"{ENVIRONMENT_OPTION!r} an environment variable. Each holds a URL such as "
            "mysql://user:password@host:3306/name, or the same as JSON."
        )

    @classmethod
    def parse(cls, text: str, *, where: str) -> Credentials:
        """Read a URL, or JSON as ``to_json`` writes it; no error repeats the text, which may be a secret."""
        text = text.strip()
        if text.startswith(("{", "[")):
            return cls._from_json(text, where)
        try:
            parts = urlsplit(text)
            vendor, port = _VENDORS[parts.scheme], parts.port
            path = unquote(parts.path)
            if not path.strip("/") or parts.fragment or (vendor != "sqlite" and "/" in path[1:]):
                raise ValueError("no database, or a secret that was not escaped")
        except (KeyError, ValueError):
            raise InvalidPipeline(
                f"{_sentence(where)} holds neither JSON nor a URL like mysql://account:secret@host:3306/name, which "
                "begins with mysql://, postgres:// or sqlite://, has a number for a port, names a database, and has "
                "its reserved characters escaped (%40 for @)."
            ) from None
        return cls(
            vendor=vendor,
            name="/" + path.lstrip("/") if vendor == "sqlite" else path.lstrip("/"),
            host=unquote(parts.hostname or ""),
            port=port,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            options=dict(parse_qsl(parts.query)),
        )

    @classmethod
    def _from_json(cls, text: str, where: str) -> Credentials:
        known = [each.name for each in fields(cls)]
        try:
            said = json.loads(text)
        except ValueError:
            raise InvalidPipeline(f"{_sentence(where)} holds broken JSON: write an object of {known}.") from None
        if not isinstance(said, dict) or set(said) - set(known) or not cls._is_well_typed(said):
            raise InvalidPipeline(
                f"{_sentence(where)} must hold a JSON object of {known}: vendor is one of "
                f"{sorted(set(_VENDORS.values()))}, name the database, port a number or null, options an object, and "
                "the others are strings."
            )
        return cls(**said)

    @staticmethod
    def _is_well_typed(said: dict[str, Any]) -> bool:
        texts = [said.get(name, "") for name in ("host", "user", "password")]
        return (
            isinstance(said.get("vendor"), str)
            and said["vendor"] in _VENDORS.values()
            and isinstance(said.get("name"), str)
            and said["name"] != ""
            and all(isinstance(text, str) for text in texts)
            and isinstance(said.get("port"), int | None)
            and isinstance(said.get("options", {}), dict)
        )

    def to_json(self) -> str:
        """Return the text that ``parse`` reads; it holds the password."""
        return json.dumps(asdict(self))


def _sentence(where: str) -> str:
    return where[0].upper() + where[1:]


def _text_of(file: str) -> str:
    """Read an absolute path, or a file that ``--files`` has shipped, by its name."""
    path = Path(file)
    if not path.is_absolute():
        from pyspark import SparkFiles  # only where Spark may have shipped the file

        root = Path(SparkFiles.getRootDirectory())
        # A stream's runner is given the directory of its session's own files, which lies in that of all files
        shipped = [each / file for each in (root, root.parent) if (each / file).exists()]
        path = shipped[0] if shipped else path.resolve()
    try:
        return path.read_text()
    except OSError as error:
        raise InvalidPipeline(
            f"The credentials file {file} can't be read here ({error.strerror}). On a cluster ship it by --files and "
            "name it without its directory."
        ) from None
