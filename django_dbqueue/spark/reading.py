"""To be built."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType


def schema_of(options: Mapping[str, str]) -> StructType:
    raise NotImplementedError


def reader_of(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    raise NotImplementedError
