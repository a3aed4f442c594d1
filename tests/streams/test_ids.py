from __future__ import annotations

import random

import pytest

from django_dbqueue.streams.id_ranges import Ranges, common, cut, from_text, holds, ranges_of, size_of, steps, to_text


def each(ranges: Ranges) -> list[int]:
    return [number for first, last in ranges for number in range(first, last + 1)]


@pytest.mark.parametrize(("ids", "text"), [([], ""), ([7], "7"), ([3, 1, 2], "1-3"), ([1, 2, 4, 9, 10], "1-2,4,9-10")])
def test_ids_are_kept_as_ranges_of_consecutive_ones(ids: list[int], text: str) -> None:
    assert to_text(ranges_of(ids)) == text
    assert each(from_text(text)) == sorted(ids)


def test_cutting_loses_none_and_makes_parts_alike() -> None:
    ids = sorted(random.Random(1).sample(range(1, 5_000), 1_000))
    for parts in (1, 2, 7, 16, 1_000, 2_000):
        pieces = cut(ranges_of(ids), parts)
        assert [number for piece in pieces for number in each(piece)] == ids
        assert len(pieces) == min(parts, 1_000)
        assert max(map(size_of, pieces)) - min(map(size_of, pieces)) <= 1
    assert cut((), 3) == []


def test_what_two_have_in_common() -> None:
    draw = random.Random(2)
    for _ in range(50):
        one, other = (set(draw.sample(range(1, 80), 40)) for _ in range(2))
        assert each(common(ranges_of(one), ranges_of(other))) == sorted(one & other)
        assert [number for number in range(90) if holds(ranges_of(one), number)] == sorted(one)


def test_statements_name_each_id_once_and_stay_short() -> None:
    class Server:
        vendor = "mysql"

    ids = [*range(1, 12_001), *range(20_000, 30_000, 3)]
    named = []
    for among, size in steps(ranges_of(ids)):
        found = list(range(among.params[0], among.params[1] + 1)) if "BETWEEN" in among.sql else list(among.params)
        assert len(found) == size
        assert len(among.params) <= 900
        named += found
    assert sorted(named) == ids
