"""Credentials stand in a file or in the environment, and no error repeats them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.databases import Statement
from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials

SECRET = "p@ss/w:ö#rd"
IN_URL = "p%40ss%2Fw%3A%C3%B6%23rd"
WHOLE = Credentials("mysql", "queue", host="db.example", port=3307, user="spark", password=SECRET)


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_a_url_has_everything_with_its_reserved_characters_escaped(scheme: str) -> None:
    assert Credentials.parse(f"{scheme}://spark:{IN_URL}@db.example:3307/queue\n", where="the file f") == WHOLE


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_what_follows_the_question_mark_goes_to_the_driver(scheme: str) -> None:
    parsed = Credentials.parse(f"{scheme}://u@[::1]/queue?sslmode=require", where="the file f")
    assert parsed == Credentials("postgresql", "queue", host="::1", user="u", options={"sslmode": "require"})


def test_the_path_of_a_sqlite_url_is_absolute() -> None:
    for url in ("sqlite:///var/lib/a%20b.sqlite3", "sqlite:////var/lib/a%20b.sqlite3"):  # django-environ writes four
        assert Credentials.parse(url, where="x").name == "/var/lib/a b.sqlite3"


def test_json_comes_back_as_it_went() -> None:
    assert Credentials.parse(WHOLE.to_json(), where="the file f") == WHOLE


def test_the_password_is_not_shown_where_credentials_are() -> None:
    assert SECRET not in repr(WHOLE)


BROKEN = [
    f"oracle://u:{IN_URL}@h/n",
    f"mysql://u:{IN_URL}@h:port/n",
    f"mysql://u:{IN_URL}@h:3306",
    f"mysql://u:{IN_URL}@h:3306/",
    f"mysql://u:{SECRET}@[h/n",
    SECRET,
    "",
    json.dumps({"password": SECRET})[:-1],
    json.dumps([SECRET]),
    json.dumps({"vendor": "mysql", "password": SECRET}),
    json.dumps({"vendor": "oracle", "name": "n", "password": SECRET}),
    json.dumps({"vendor": "mysql", "name": "n", "passwort": SECRET}),
    json.dumps({"vendor": "mysql", "name": "n", "port": SECRET}),
    json.dumps({"vendor": "mysql", "name": "n", "options": SECRET}),
    json.dumps({"vendor": ["mysql"], "name": "n", "password": SECRET}),
    f"mysql:/u:{IN_URL}@h",
    f"mysql:u:{IN_URL}@h/n",
    f"mysql:///u:{IN_URL}@h",
    f"mysql:///{IN_URL}@h",
    f"mysql//u:{IN_URL}@h/n",
    f"{IN_URL}:mysql://u@h/n",
    "mysql://u:12/rd@h",
    "mysql://u:12/rd:x",
    "mysql://u:12#rd@h/n",
    "mysql://u:12?rd@h/n",
    "mysql://u:rd@h:99999/n",
    "mysql://u:rd@h:-1/n",
    "mysql://u:rd@[::1:3306/n",
    "mysql://u:rd@::1]:3306/n",
    "mysql://u:rd%FF@h/n",
    "mysql://u:rd\n@h/n",
    "mysql://u:rd @h/n",
    "sqlite://u:rd@/var/lib/q.sqlite3",
    json.dumps(SECRET),
    json.dumps(4711),
    "[" * 100_000,
    '{"a":' * 100_000,
    json.dumps({"vendor": "mysql", "name": f"u:{SECRET}@h/n"}),
    json.dumps({"vendor": "mysql", "name": "n", "host": f"u:{SECRET}@h"}),
    json.dumps({"vendor": "mysql", "name": "n", "host": f"mysql://{IN_URL}"}),
    json.dumps({"vendor": "mysql", "name": "n", "user": f"u:{SECRET}"}),
    json.dumps({"vendor": "mysql", "name": "n", "port": 99_999, "password": SECRET}),
    json.dumps({"vendor": "mysql", "name": "n", "port": True, "password": SECRET}),
    json.dumps({"vendor": "mysql", "name": "n", "password": [SECRET]}),
    json.dumps({"vendor": "mysql", "name": "n", "options": [SECRET]}),
    json.dumps({SECRET: "password"}),
]


@pytest.mark.parametrize("text", BROKEN)
def test_what_can_not_be_read_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(InvalidPipeline, match="The file f") as refused:
        Credentials.parse(text, where="the file f")
    for piece in (SECRET, IN_URL, "rd"):
        assert piece not in str(refused.value).replace("mariadb", "").replace("password", "").replace("word", "")
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_a_file_may_begin_with_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "queue.json"
    file.write_text("\ufeff" + WHOLE.to_json())
    assert Credentials.load({"credentials_file": str(file)}) == WHOLE


def test_a_file_that_is_no_text_is_refused_without_repeating_it(tmp_path: Path) -> None:
    file = tmp_path / "queue.json"
    file.write_bytes(b"mysql://u:rd\xff@h/n")
    with pytest.raises(InvalidPipeline, match="UTF-8") as refused:
        Credentials.load({"credentials_file": str(file)})
    assert refused.value.__context__ is None


def test_what_a_driver_shows_of_a_secret_is_hidden() -> None:
    parsed = replace(WHOLE, options={"ssl_key_password": "within", "charset": "utf8mb4"})
    assert parsed.hidden_in(f"{SECRET} and within, utf8mb4") == "*** and ***, utf8mb4"
    assert "within" not in repr(parsed)


@pytest.mark.parametrize("name", ["password", "User", "URL", "host", "dbtable_password"][:4])
def test_an_option_that_is_a_secret_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(InvalidPipeline, match=f"option '{name.lower()}'") as refused:
        Credentials.load({name: SECRET, "credentials_file": "f"})
    assert SECRET not in str(refused.value)


def test_options_that_name_no_place_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidPipeline, match=r"credentials_file.*credentials_env"):
        Credentials.load({"queue": "emails"})


def test_a_file_and_the_environment_hold_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ö credentials"
    file.write_text(WHOLE.to_json())
    monkeypatch.setenv("QUEUE_DATABASE", f"mysql://spark:{IN_URL}@db.example:3307/queue")
    assert Credentials.load({"credentials_file": str(file)}) == WHOLE
    assert Credentials.load({"Credentials_Env": "QUEUE_DATABASE"}) == WHOLE


def test_a_file_that_is_not_there_and_a_variable_that_is_not_set_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidPipeline, match=r"nowhere.*No such file.*--files"):
        Credentials.load({"credentials_file": str(tmp_path / "nowhere")})
    with pytest.raises(InvalidPipeline, match=r"'NOT_SET_HERE'.*executorEnv"):
        Credentials.load({"credentials_env": "NOT_SET_HERE"})


# Real ones


@pytest.mark.django_db(transaction=True)
def test_djangos_settings_lead_to_the_same_database(database: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO django_dbqueue_mutex (name) VALUES ('here')")
    with Connection(credentials_of("default")) as own:
        assert own.fetch(Statement("SELECT name FROM django_dbqueue_mutex", ())) == [("here",)]
        assert own.run(Statement("DELETE FROM django_dbqueue_mutex WHERE name = %s", ("here",))) == 1


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_fails_leaves_nothing() -> None:
    insert = Statement("INSERT INTO django_dbqueue_mutex (name) VALUES (%s)", ("never",))

    def fails(own: Connection) -> None:
        with own.transaction():
            own.run(insert)
            raise KeyError("never")

    with Connection(credentials_of("default")) as own:
        with pytest.raises(KeyError):
            fails(own)
        assert own.fetch(Statement("SELECT name FROM django_dbqueue_mutex", ())) == []
        with own.transaction():
            own.run(insert)
        assert own.run(Statement("DELETE FROM django_dbqueue_mutex WHERE name = %s", ("never",))) == 1


def wrong_place(**changes: Any) -> Credentials:
    fields = {name: getattr(credentials_of("default"), name) for name in Credentials.__dataclass_fields__}
    return Credentials(**{**fields, **changes})


@pytest.mark.django_db
def test_a_database_that_is_not_there_is_named_and_the_password_is_not(database: str) -> None:
    nowhere = wrong_place(name="/nowhere/at/all" if database == "sqlite" else "nowhere_at_all", password=SECRET)
    with pytest.raises(InvalidPipeline, match="nowhere") as refused:
        Connection(nowhere)
    assert SECRET not in str(refused.value)
