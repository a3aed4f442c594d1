"""To be built."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType


def writer_of(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceWriter:
    raise NotImplementedError


def stream_writer_of(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceStreamWriter:
    raise NotImplementedError
