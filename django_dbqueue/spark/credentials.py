"""Where the database is and which account is used: read from a file or the environment, never from an option.

Options travel in plans, pickles and notebooks, and another version of Spark may print them; so they only name the place
where the credentials are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from django_dbqueue.databases import SERVERS, Server, server_of, server_of_scheme
from django_dbqueue.envelope import is_whole
from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.typed_values import typed_whole

FILE_OPTION: Final = "credentials_file"
ENVIRONMENT_OPTION: Final = "credentials_env"
MAX_CONNECTIONS_OPTION: Final = "maxConnections"
MAX_CONNECTIONS: Final = 8
"""Sessions on one database, unless the option says how many."""
MOST_CONNECTIONS: Final = 1_000
REFUSED: Final = ("password", "passwd", "user", "username", "url", "dburl", "host", "database", "dbname")
"""Options in which other sources take credentials."""
_SECRET: Final = re.compile("(?i)pass|secret|token|key")
"""In the name of a driver's option."""
_UNPRINTED: Final = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A database and an account on it. ``vendor`` is mysql (MariaDB too), postgresql or sqlite; ``name`` its database.

    ``options`` go to the driver as they are (MySQLdb, psycopg): certificates, timeouts, a socket.
    """

    vendor: str
    name: str
    host: str = ""
    port: int | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    max_connections: int = field(default=0, compare=False)
    """How many sessions the pipeline may have at once; 0: any number. An option sets it; the account does not."""

    @property
    def is_counted(self) -> bool:
        """Whether its sessions are: a file has none."""
        return self.max_connections > 0 and not self.server.is_file

    @property
    def server(self) -> Server:
        """The builder of the queue's statements for this database."""
        return server_of(self)

    @classmethod
    def load(cls, options: Mapping[str, str]) -> Credentials:
        """Read what the options name; InvalidPipeline if they name nothing, or contain a secret themselves."""
        chosen = {name.lower(): value for name, value in options.items()}
        return replace(cls.named(chosen, FILE_OPTION, ENVIRONMENT_OPTION), max_connections=_max_connections(chosen))

    @classmethod
    def named(cls, chosen: Mapping[str, str], file_option: str, environment_option: str) -> Credentials:
        """Read what these two options name; ``chosen`` has lower-case names."""
        if refused := sorted(set(chosen) & set(REFUSED)):
            raise InvalidPipeline(
                f"The option {refused[0]!r} would appear in plans and logs. Write the credentials to a file that only "
                f"you can read and name the file in the option {file_option!r}, or put them into an environment "
                f"variable and name it in {environment_option!r}."
            )
        if (file := chosen.get(file_option)) is not None:
            return cls.parse(_text_of(file), where=f"the file {file}")
        if (variable := chosen.get(environment_option)) is not None:
            if variable not in os.environ:
                raise InvalidPipeline(
                    f"The environment variable {variable!r}, which {environment_option!r} names, is not set here. On a "
                    f"cluster every executor needs it: set spark.executorEnv.{variable}, or use {file_option!r}."
                )
            return cls.parse(os.environ[variable], where=f"the environment variable {variable}")
        raise InvalidPipeline(
            f"The database's credentials are missing: the option {file_option!r} names a file, "
            f"{environment_option!r} an environment variable. Either holds a URL such as "
            "mysql://user:password@host:3306/name, or the same in JSON."
        )

    @classmethod
    def parse(cls, text: str, *, where: str) -> Credentials:
        """Read a URL, or JSON as ``to_json`` writes it; no error repeats the text, which may be a secret."""
        text = text.strip().removeprefix("\ufeff")
        found = cls._from_json(text, where) if text.startswith(("{", "[")) else _from_url(text)
        if found is None:
            raise InvalidPipeline(
                f"{_sentence(where)} holds neither JSON nor a URL like mysql://account:secret@host:3306/name, which "
                "begins with mysql://, postgres:// or sqlite://, has a number for a port, names a database, and has "
                "its reserved characters escaped (%40 for @, %3A for :)."
            )
        if misplaced := found.misplaced():
            raise InvalidPipeline(
                f"{_sentence(where)} has a {misplaced} that seems to contain other parts too: write account, "
                "password, host and database separately."
            )
        return found

    @classmethod
    def _from_json(cls, text: str, where: str) -> Credentials:
        known = [each.name for each in fields(cls) if each.name != "max_connections"]
        values = _json_of(text)
        if values is None:
            raise InvalidPipeline(f"{_sentence(where)} holds broken JSON: write an object of {known}.")
        if not isinstance(values, dict) or set(values) - set(known) or not _is_well_typed(values):
            raise InvalidPipeline(
                f"{_sentence(where)} must hold a JSON object of {known}: vendor is one of "
                f"{sorted(SERVERS)}, name the database, port a number from 1 to 65535 or null, options "
                "an object, and the others are strings."
            )
        return cls(**values)

    def misplaced(self) -> str | None:
        """Return the name of a field that seems to contain a password too, and that errors would repeat."""
        if self.server.is_file:
            return "host" if self.host else None
        if ":" in self.name or "@" in self.name:
            return "name"
        if "@" in self.host or "/" in self.host[1:] or ("//" in self.host):
            return "host"
        return "user" if ":" in self.user else None

    def hidden_in(self, text: str) -> str:
        """Return a text, such as a driver's error, with the secrets removed."""
        kept = [value for name, value in self.options.items() if _SECRET.search(name) and isinstance(value, str)]
        for secret in sorted({self.password, *kept} - {""}, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def to_json(self) -> str:
        """Return the text that ``parse`` reads; it holds the password."""
        return json.dumps({name: value for name, value in asdict(self).items() if name != "max_connections"})


def _max_connections(chosen: Mapping[str, str]) -> int:
    value = chosen.get(MAX_CONNECTIONS_OPTION.lower(), str(MAX_CONNECTIONS))
    number = typed_whole(value.strip(), 0, MOST_CONNECTIONS)
    if number is None:
        raise InvalidPipeline(
            f"The option {MAX_CONNECTIONS_OPTION!r} is {value!r}; it must be a whole number from 0 to "
            f"{MOST_CONNECTIONS:,}. It bounds the sessions that the pipeline has on the database at once; 0 means no "
            "bound."
        )
    return number


def _from_url(text: str) -> Credentials | None:
    try:
        return _parts_of(text)
    except ValueError:
        return None


def _parts_of(text: str) -> Credentials:
    """Read a URL; ValueError if it isn't one, or if a secret may contain a character that should be escaped."""
    scheme, marks, _ = text.partition("://")
    server = server_of_scheme(scheme)
    parts = urlsplit(text)
    path = _unescaped(parts.path)
    if not marks or server is None or parts.fragment or _UNPRINTED.search(text):
        raise ValueError
    if server.is_file and parts.netloc:
        raise ValueError
    if not path.strip("/") or (not server.is_file and ("/" in path[1:] or "@" in parts.path or ":" in parts.path)):
        raise ValueError
    return Credentials(
        vendor=server.vendor,
        name="/" + path.lstrip("/") if server.is_file else path.lstrip("/"),
        host=_unescaped(parts.hostname or ""),
        port=parts.port,
        user=_unescaped(parts.username or ""),
        password=_unescaped(parts.password or ""),
        options=dict(parse_qsl(parts.query)),
    )


def _unescaped(text: str) -> str:
    return unquote(text, errors="strict")


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_well_typed(values: dict[str, object]) -> bool:
    texts = [values.get(name, "") for name in ("host", "user", "password")]
    port = values.get("port")
    return (
        isinstance(values.get("vendor"), str)
        and values["vendor"] in SERVERS
        and isinstance(values.get("name"), str)
        and values["name"] != ""
        and all(isinstance(text, str) for text in texts)
        and (port is None or is_whole(port, 1, 65_535))
        and isinstance(values.get("options", {}), dict)
    )


def _sentence(where: str) -> str:
    return where[0].upper() + where[1:]


def _text_of(file: str) -> str:
    """Read an absolute path or, by its name, a file that ``--files`` has shipped."""
    path = Path(file)
    if not path.is_absolute():
        shipped = [each / file for each in _shipped_roots() if (each / file).exists()]
        path = shipped[0] if shipped else path.resolve()
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        why = str(error.strerror)
    except UnicodeDecodeError:
        why = "it isn't UTF-8 text"
    raise InvalidPipeline(
        f"The credentials file {file} can't be read here ({why}). On a cluster, ship it with --files and name it "
        "without its directory."
    )


def _shipped_roots() -> list[Path]:
    """Return where Spark puts shipped files; nowhere in a process that has nothing of Spark's."""
    try:
        from pyspark import SparkFiles
    except ImportError:  # credentials are also read without Spark
        return []
    try:
        root = Path(SparkFiles.getRootDirectory())
    except AssertionError:  # a driver without a session
        return []
    # A stream's runner gets the directory of its session's own files, which is inside that of all files
    return [root, root.parent]
