"""docs/batches.md does what it says: its first consumer stores what is sent, many in a commit."""

from __future__ import annotations

from pathlib import Path

from tests.pages.page_project import ON_SQLITE, ROOT, make_project, run_there, shell

EXAMPLE = (ROOT / "docs" / "batches.md").read_text().partition("```python\n")[2].partition("```")[0]
MODELS = """
from django.db import models


class Click(models.Model):
    url = models.TextField()
"""

pytestmark = ON_SQLITE


def test_the_example_stores_clicks(tmp_path: Path) -> None:
    make_project(tmp_path, "clicks", {"models": MODELS, "queue_consumers": EXAMPLE})
    shell(
        tmp_path,
        "from django_dbqueue.models import Message as M",
        "M.objects.enqueue_many([{'url': '/'}] * 1200, queue='clicks')",
    )
    output = run_there(tmp_path, "run_queue_worker", "--drain")
    assert "1200 done, 0 failed and retried" in output
    assert shell(tmp_path, "from clicks.models import Click", "print(Click.objects.count())").split()[-1] == "1200"
