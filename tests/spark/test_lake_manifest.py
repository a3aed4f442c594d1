"""What a manifest says, and how it is known that it still says what was written."""

from __future__ import annotations

import json

import pytest

from django_dbqueue.exceptions import LakeDamaged
from django_dbqueue.spark.manifest import LakeFile, Manifest

MANIFEST = Manifest(
    lake="lake:history:00000000",
    batch=3,
    first_id=101,
    last_id=200,
    rows=99,
    checksum="00ff00ff00ff00ff",
    columns=(("id", "bigint"), ("day", "date")),
    files=(LakeFile("queue=a%3Ab/day=2026-01-01/batch=3/part-0.zstd.parquet", 4321),),
    written_at="2026-01-02T00:00:00+00:00",
)


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert Manifest.parse(MANIFEST.to_json(), where="here") == MANIFEST
    assert MANIFEST.name == "0000000000000000101.json"


def test_any_text_that_was_cut_off_is_refused() -> None:
    whole = MANIFEST.to_json().rstrip()

    for length in range(len(whole)):
        with pytest.raises(LakeDamaged, match="here"):
            Manifest.parse(whole[:length], where="here")


@pytest.mark.parametrize(
    ("name", "number", "error"),
    [
        *((name, getattr(MANIFEST, name) + 1, "changed") for name in ("rows", "first_id", "last_id", "batch")),
        ("format", 3, "format 3"),
    ],
)
def test_a_number_that_is_another_breaks_the_seal_or_is_of_the_future(name: str, number: int, error: str) -> None:
    document = json.loads(MANIFEST.to_json()) | {name: number}

    with pytest.raises(LakeDamaged, match=error):
        Manifest.parse(json.dumps(document), where="here")


@pytest.mark.parametrize("text", ["", "null", "[]", "7", '"seal"', "{}", "\x00"])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(LakeDamaged, match="here"):
        Manifest.parse(text, where="here")
