"""``format("dbqueue")``: maps a session's options to the module that answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )


class DbQueueDataSource(DataSource):
    """The queue as a source and as a sink; its options are described in ``docs/spark.md``."""

    @classmethod
    def name(cls) -> str:
        return "dbqueue"

    def schema(self) -> StructType:
        from django_dbqueue.spark.table_reader import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from django_dbqueue.spark.table_reader import TableReader

        return TableReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from django_dbqueue.spark.writing import writer_of

        return writer_of(self.options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        if self.options.get("source", "messages") == "history":
            from django_dbqueue.spark.following import reader_of

            return reader_of(self.options, schema)
        from django_dbqueue.spark.consuming import reader_of

        return reader_of(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from django_dbqueue.spark.writing import stream_writer_of

        return stream_writer_of(self.options, schema, overwrite=overwrite)
