"""In somebody else's project: with and without pytest-django, factory-boy and xdist, with two databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.testing.project import Project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.once
CONSUMERS = """
from django_dbqueue import consumer

@consumer("echo")
def echo(message):
    print("heard", message.payload)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("accounts/queue_consumers.py", CONSUMERS)
    project.write("pytest.ini", "[pytest]\nDJANGO_SETTINGS_MODULE = shop.settings\nfilterwarnings = error\n")
    return project


MANY_TESTS = """
import pytest
from django.test import TestCase, TransactionTestCase
from django_dbqueue.models import Message
from django_dbqueue.testing import assert_enqueued, run_consumers

@pytest.mark.parametrize("number", range(10))
def test_alone_in_the_table(dbqueue, number):
    dbqueue.message(queue="echo", payload=number)
    assert [each.payload for each in dbqueue.run_consumers().done] == [number]
    assert Message.objects.count() == 1

def test_with_real_commits(transactional_db, dbqueue):
    dbqueue.message(queue="echo")
    assert len(dbqueue.run_consumers().done) == 1

class Tests(TestCase):
    @classmethod
    def setUpTestData(cls):
        Message.objects.enqueue("from the class", queue="echo")

    def test_first(self):
        self.assertEqual(len(run_consumers().done), 1)

    def test_second(self):
        assert_enqueued("echo", payload="from the class", count=1)
        self.assertEqual(len(run_consumers().done), 1)

class RealTests(TransactionTestCase):
    def test_it(self):
        Message.objects.enqueue("x", queue="echo")
        self.assertEqual(len(run_consumers().done), 1)
"""


@pytest.mark.parametrize("how", ["", "-n 2"], ids=["alone", "xdist"])
def test_the_plugin_is_found_and_each_test_is_alone(project: Project, how: str) -> None:
    project.write("accounts/test_it.py", MANY_TESTS)
    assert "14 passed" in project.run(f"python -m pytest {how}")


def test_the_fixture_is_listed_with_what_it_does(project: Project) -> None:
    output = project.run("python -m pytest --fixtures accounts")
    assert "dbqueue" in output
    assert "Run consumers, check what was enqueued, and make messages." in output


def test_a_run_of_pytest_that_knows_no_django_is_left_alone(project: Project) -> None:
    project.write("elsewhere/pytest.ini", "[pytest]\nfilterwarnings = error\n")
    project.write("elsewhere/test_it.py", "import sys\n\ndef test_it():\n    assert 'django.db' not in sys.modules\n")
    assert "1 passed" in project.run("python -m pytest -p no:django -p no:randomly elsewhere")


def test_without_factory_boy_all_but_the_factory_works_and_that_names_what_to_install(project: Project) -> None:
    project.write("accounts/test_it.py", WITHOUT_FACTORY_BOY)
    (project.site / "sitecustomize.py").write_text("import sys\nsys.modules['factory'] = None\n")
    assert "3 passed" in project.run("python -m pytest")


WITHOUT_FACTORY_BOY = """
import pytest
from django_dbqueue import testing
from django_dbqueue.models import Message

def test_the_rest_works(dbqueue):
    Message.objects.enqueue("x", queue="echo")
    dbqueue.assert_enqueued("echo")
    assert len(dbqueue.run_consumers().done) == 1

def test_the_factory_says_what_to_install(dbqueue):
    with pytest.raises(ImportError, match=r"needs factory-boy: pip install 'django-dbqueue\\[testing\\]'"):
        dbqueue.message()

def test_so_does_its_name():
    with pytest.raises(ImportError, match="needs factory-boy"):
        testing.MessageFactory
"""


TWO_DATABASES = """
DATABASES["queue"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": "queue.sqlite3"}
DBQUEUE = {"DATABASE": "queue"}
DATABASE_ROUTERS = ["shop.routers.Router"]
"""
ROUTER = """
class Router:
    def db_for_write(self, model, **hints):
        return "queue" if model._meta.app_label == "django_dbqueue" else "default"

    db_for_read = db_for_write

    def allow_migrate(self, db, app_label, **hints):
        return (db == "queue") == (app_label == "django_dbqueue")
"""
BOTH = """
import pytest
from django.contrib.auth.models import User
from django.test import TestCase
from django_dbqueue import consumer
from django_dbqueue.models import Message
from django_dbqueue.testing import MessageFactory, assert_enqueued, refute_enqueued, run_consumers

@consumer("users")
def make_user(message):
    if message.payload == "bad":
        User.objects.create_user("first")
        User.objects.create_user("first")
    User.objects.create_user(message.payload)

class Tests(TestCase):
    databases = {"default", "queue"}

    def test_both_are_used(self):
        MessageFactory(queue="users", payload="ann")
        assert_enqueued("users", using="queue")
        assert len(run_consumers("users").done) == 1
        assert User.objects.filter(username="ann").exists()

    def test_an_error_in_the_other_database_leaves_both_whole(self):
        MessageFactory(queue="users", payload="bad")
        [handled] = run_consumers("users", on_error="collect")
        assert handled.outcome == "waiting"
        assert "UNIQUE" in handled.message.error
        User.objects.create_user("first")

class Forgetful(TestCase):
    def test_it(self):
        with self.assertRaisesMessage(AssertionError, "Database queries to 'queue' are not allowed in this test."):
            run_consumers("users")
        with self.assertRaisesMessage(AssertionError, "Add 'queue' to"):
            refute_enqueued("users")

@pytest.mark.django_db(databases=["default", "queue"])
def test_with_pytest(dbqueue):
    dbqueue.message(queue="users", payload="ann", using="queue")
    assert len(dbqueue.run_consumers("users", using="queue").done) == 1
"""


def test_a_queue_in_a_database_of_its_own_is_tested_by_those_who_name_it(project: Project) -> None:
    project.write("shop/settings.py", TWO_DATABASES)
    project.write("shop/routers.py", ROUTER)
    project.write("accounts/test_it.py", BOTH)
    assert "4 passed" in project.run("python -m pytest")
    assert "Ran 3 tests" in project.run("python manage.py test accounts")


ATOMIC = """
DATABASES["default"]["ATOMIC_REQUESTS"] = True
ROOT_URLCONF = "shop.views"
"""
VIEWS = """
from django.db import transaction
from django.http import HttpResponse
from django.urls import path
from django_dbqueue.models import Message

def send(request):
    Message.objects.enqueue("at once", queue="echo")
    transaction.on_commit(lambda: Message.objects.enqueue("after the commit", queue="echo") and None)
    if "fail" in request.GET:
        raise ValueError
    return HttpResponse()

urlpatterns = [path("send", send)]
"""
REQUESTS = """
from django.test import TestCase
from django_dbqueue.testing import refute_enqueued, run_consumers

class Tests(TestCase):
    def test_what_a_request_sends_is_run(self):
        with self.captureOnCommitCallbacks(execute=True):
            self.client.get("/send")
        assert [each.payload for each in run_consumers().done] == ["at once", "after the commit"]

    def test_what_a_request_that_fails_sends_is_not_there(self):
        self.client.raise_request_exception = False
        with self.captureOnCommitCallbacks(execute=True):
            assert self.client.get("/send?fail").status_code == 500
        refute_enqueued("echo")

    async def test_from_an_async_test(self):
        from asgiref.sync import sync_to_async
        from django_dbqueue.models import Message

        await Message.objects.aenqueue("x", queue="echo")
        assert len((await sync_to_async(run_consumers)("echo")).done) == 1
"""


def test_requests_that_are_transactions_send_what_they_commit(project: Project) -> None:
    project.write("shop/settings.py", ATOMIC)
    project.write("shop/views.py", VIEWS)
    project.write("accounts/tests.py", REQUESTS)
    assert "Ran 3 tests" in project.run("python manage.py test")
