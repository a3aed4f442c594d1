"""Every text of the package is there in each language, says the same, and is compiled. The tests name what isn't."""

from __future__ import annotations

from gettext import GNUTranslations
from pathlib import Path

import pytest

from tests import translations
from tests.translations import PACKAGE, Text, entries, holes, marked

pytestmark = pytest.mark.once
PLURAL_FORMS = {"de": 2, "zh_Hans": 1}
JOINS = (" ", ",", "，")
UPDATE = (
    "In django_dbqueue/ run: django-admin makemessages -l de -l zh_Hans --no-location --no-obsolete; translate; "
    "run: django-admin compilemessages. (makemessages finds no text inside an f-string: take it out.)"
)


@pytest.fixture(scope="module")
def texts() -> dict[Text, str]:
    return marked()


@pytest.fixture(scope="module", params=PLURAL_FORMS)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def directory(language: str) -> Path:
    return PACKAGE / "locale" / language / "LC_MESSAGES"


@pytest.fixture(scope="module")
def translated(directory: Path) -> dict[Text, translations.Entry]:
    return {entry.text: entry for entry in entries(directory / "django.po")}


def test_every_language_is_tested() -> None:
    assert {path.name for path in (PACKAGE / "locale").iterdir()} == set(PLURAL_FORMS)


def test_every_text_is_translated(texts: dict[Text, str], translated: dict[Text, translations.Entry]) -> None:
    assert len(texts) > 500
    missing = [
        f"{place}: {text.singular!r}"
        for text, place in texts.items()
        if text not in translated or translated[text].is_fuzzy or not all(translated[text].forms)
    ]
    assert not missing, "\n".join(["Not translated:", *missing, UPDATE])


def test_nothing_is_translated_that_is_not_in_the_package(
    texts: dict[Text, str], translated: dict[Text, translations.Entry]
) -> None:
    assert [text.singular for text in translated if text not in texts] == [], UPDATE


def test_a_plural_has_all_forms_and_nothing_else_has(language: str, translated: dict[Text, translations.Entry]) -> None:
    number = PLURAL_FORMS[language]
    wrong = [text for text, entry in translated.items() if len(entry.forms) != (1 if text.plural is None else number)]
    assert wrong == []


def test_what_is_put_into_a_text_is_put_into_its_translation(translated: dict[Text, translations.Entry]) -> None:
    wrong = {
        text.singular: form
        for text, entry in translated.items()
        for form in entry.forms
        if holes(form) not in [holes(text.singular), holes(text.plural or text.singular)]
    }
    assert wrong == {}


def test_spaces_and_line_breaks_at_the_ends_stay(translated: dict[Text, translations.Entry]) -> None:
    """Where a text is put together with others; a comma may stand in a blank's place."""
    wrong = [
        form
        for text, entry in translated.items()
        for form in entry.forms
        if text.singular.endswith("\n") != form.endswith("\n")
        or text.singular.startswith(JOINS) != form.startswith(JOINS)
    ]
    assert wrong == []


def test_what_is_compiled_is_what_is_written(
    language: str, directory: Path, translated: dict[Text, translations.Entry]
) -> None:
    with (directory / "django.mo").open("rb") as file:
        compiled = GNUTranslations(file)
    stale = []
    for text, entry in translated.items():
        if text.plural is None:
            given = [compiled.gettext(text.singular) if text.context is None else compiled.pgettext(*text[:2])]
        else:
            numbers = range(1, 1 + PLURAL_FORMS[language])
            given = [compiled.ngettext(text.singular, text.plural, number) for number in numbers]
        if given != entry.forms:
            stale.append(text)
    assert stale == [], UPDATE
    assert compiled.gettext("never said by anyone") == "never said by anyone"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from django.utils.translation import gettext as _\n_('a' 'b')", Text(None, "ab", None)),
        ("from django.utils.translation import pgettext_lazy as p\np('c', 'x')", Text("c", "x", None)),
        ("from django.utils.translation import ngettext\nngettext('x', 'xs', 3)", Text(None, "x", "xs")),
    ],
)
def test_marks_are_found_by_what_was_imported(source: str, found: Text) -> None:
    assert [text for text, _ in translations._in_python(source)] == [found]


def test_what_is_no_literal_is_found_out() -> None:
    with pytest.raises(AssertionError, match="not a literal: _"):
        list(translations._in_python("from django.utils.translation import gettext as _\n_(f'a {b}')"))


def test_templates_are_read_as_django_reads_them() -> None:
    source = (
        '{% load i18n %}{% translate "It\'s (a) text" %} '
        "{% blocktranslate count n=n %}One {{ x }}.{% plural %}{{ n }}s.{% endblocktranslate %}"
        '{% translate "b" context "c" %}'
    )
    assert list(translations._in_template(source)) == [
        Text(None, "It's (a) text", None),
        Text(None, "One %(x)s.", "%(n)ss."),
        Text("c", "b", None),
    ]
