"""Sessions that pages tell of."""

from __future__ import annotations

import doctest
import re
from pathlib import Path


def assert_page_prints_what_it_shows(page: Path) -> None:
    session = "".join(re.findall(r"^```pycon\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    assert len(examples.examples) > 20
    output: list[str] = []
    assert doctest.DocTestRunner().run(examples, out=output.append).failed == 0, "".join(output)
