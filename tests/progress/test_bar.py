"""The template tag shows how far a flow or message is as the page is made; a small script keeps it up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest
from django.template import Context, Template

from django_dbqueue import flow
from django_dbqueue.models import Flow, Message
from tests.factories import QUEUE, claim_one, dead, waiting

pytestmark = pytest.mark.django_db(transaction=True)


def shown(subject: Any, label: str = "") -> str:
    page = Template("{% load dbqueue %}{% dbqueue_progress subject label=label expires_in=60 %}")
    return page.render(Context({"subject": subject, "label": label}))


def test_it_shows_the_state_without_the_script() -> None:
    with flow("f") as f:
        f.enqueue_many(range(1_500), queue=QUEUE)
    claim_one().ack()
    page = shown(Flow.objects.get(pk=f.id), "<Import>")
    assert '<progress aria-label="&lt;Import&gt;" value="1" max="1500"></progress>' in page
    assert '<span role="status" aria-live="off">1 of 1,500, about' in page
    link = re.search(r'data-dbqueue-progress="(/progress/[\w:-]+)" data-dbqueue-poll="2.0"', page)
    assert link is not None


def test_a_message_has_a_bar_too() -> None:
    page = shown(waiting())
    assert 'aria-label="Progress" value="0" max="1"' in page
    assert ">waiting</span>" in page
    assert "data-dbqueue-progress" in page


def test_what_has_ended_is_not_polled_again_and_what_is_gone_is_not_shown() -> None:
    page = shown(dead())
    assert ">failed</span>" in page
    assert "data-dbqueue-progress" not in page
    message = waiting()
    Message.objects.filter(pk=message.pk).delete()
    assert shown(message).strip() == ""


def test_a_variable_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TypeError, match="There is progress of a flow or a message that was enqueued, not of ''"):
        shown("")


def test_the_script_is_small() -> None:
    script = files("django_dbqueue") / "static" / "django_dbqueue" / "progress.js"
    assert 0 < len(script.read_bytes()) <= 2_048


ALONE = """
import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django_dbqueue"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    ROOT_URLCONF="django_dbqueue.urls",
    SECRET_KEY="x",
)
django.setup()
from django.core.management import call_command
from django.template import engines
from django_dbqueue.models import Message

call_command("migrate", verbosity=0)
message = Message.objects.enqueue(1, queue="q")
page = engines["django"].from_string("{% load i18n dbqueue %}{% dbqueue_progress message %}").render
try:
    page({"message": message})
except Exception as error:
    print(error)
from django.urls import include, path
import django_dbqueue.urls
settings.ROOT_URLCONF = type("urls", (), {"urlpatterns": [path("progress/", include("django_dbqueue.urls"))]})
print(page({"message": message}))
"""


@pytest.mark.once
def test_a_project_without_the_admin_has_templates_and_bars() -> None:
    ended = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "There is no address for progress links" in ended.stdout
    assert ">waiting</span>" in ended.stdout
