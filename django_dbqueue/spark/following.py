"""To be built."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType


def reader_of(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    raise NotImplementedError
