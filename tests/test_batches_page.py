"""docs/batches.md does what it says: its first consumer stores what is sent, many in a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from tests.test_async_page import ROOT, SETTINGS, run_there

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = (ROOT / "docs" / "batches.md").read_text().partition("```python\n")[2].partition("```")[0]
MODELS = """
from django.db import models


class Click(models.Model):
    url = models.TextField()
"""

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(settings.TEST_DATABASE != "sqlite", reason="its project is on SQLite"),
]


def test_the_example_stores_clicks(tmp_path: Path) -> None:
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks" / "__init__.py").touch()
    (tmp_path / "clicks" / "models.py").write_text(MODELS)
    (tmp_path / "clicks" / "queue_consumers.py").write_text(EXAMPLE)
    (tmp_path / "of_page.py").write_text(SETTINGS.replace("webhooks", "clicks"))
    run_there(tmp_path, "makemigrations", "clicks", "-v", "0")
    run_there(tmp_path, "migrate", "-v", "0")
    send = (
        "from django_dbqueue.models import Message as M\nM.objects.enqueue_many([{'url': '/'}] * 1200, queue='clicks')"
    )
    run_there(tmp_path, "shell", "-c", send)
    output = run_there(tmp_path, "run_queue_worker", "--drain")
    assert "1200 done, 0 failed and retried" in output
    assert (
        run_there(tmp_path, "shell", "-c", "from clicks.models import Click\nprint(Click.objects.count())").split()[-1]
        == "1200"
    )
