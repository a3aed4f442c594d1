"""Options in any case of letters, and what they can't be."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.spark.source_options import Options


def options(**given: str) -> Options:
    return Options.of(given, known=("pageRows", "queue", "direct", "mode", "since"))


def test_names_are_read_in_any_case() -> None:
    assert options(PAGEROWS="7").whole("pageRows") == 7
    assert options(pagerows="7").whole("pageRows", 1) == 7


def test_what_was_not_set_has_its_default() -> None:
    nothing = options()
    assert nothing.whole("pageRows", 5) == 5
    assert nothing.whole("pageRows") is None
    assert nothing.texts("queue") == ()
    assert nothing.flag("direct") is False
    assert nothing.choice("mode", ("a", "b"), "b") == "b"
    assert nothing.moment("since") is None


def test_an_unknown_option_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidPipeline, match=r"no option 'page_rows' here\. Did you mean 'pageRows'\?"):
        options(page_rows="7")


def test_what_spark_adds_by_itself_is_let_pass() -> None:
    assert options(checkpointLocation="/lake/checkpoint", queryName="q").texts("queue") == ()


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "1e3", "99999999999999999999"])
def test_a_number_that_is_none_or_out_of_bounds_is_refused(value: str) -> None:
    with pytest.raises(InvalidPipeline, match=f"'pageRows' is '{value}'; it must be a whole number from 1 to"):
        options(pageRows=value).whole("pageRows")


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_option_is_refused(value: str) -> None:
    with pytest.raises(InvalidPipeline, match="'pageRows' is empty"):
        options(pageRows=value).whole("pageRows", 5)


def test_a_list_is_split_at_its_commas_each_name_once() -> None:
    assert options(queue="a, b,a").texts("queue") == ("a", "b")
    with pytest.raises(InvalidPipeline, match="empty item beside a comma: 'a,,b'"):
        options(queue="a,,b").texts("queue")


def test_a_flag_is_true_or_false() -> None:
    assert options(direct="TRUE").flag("direct") is True
    with pytest.raises(InvalidPipeline, match="'direct' is 'yes'; it can be false, true"):
        options(direct="yes").flag("direct")


def test_a_required_option_has_a_reason() -> None:
    with pytest.raises(InvalidPipeline, match="'queue' is missing: it says where to"):
        options().required("queue", "it says where to.")


def test_a_moment_needs_its_offset() -> None:
    expected = datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert options(since="2026-03-01T12:00:00+02:00").moment("since") == expected
    assert options(since="2026-03-01T10:00:00Z").moment("since") == expected
    for value in ("2026-03-01T12:00:00", "2026-03-01", "yesterday"):
        with pytest.raises(InvalidPipeline, match=f"'since' is '{value}'; it must be a date and time with an offset"):
            options(since=value).moment("since")
