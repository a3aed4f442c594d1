"""Found by Spark, which imports the modules named ``pyspark_*`` and registers their ``DefaultSource``."""

from django_dbqueue.spark.data_source import DbQueueDataSource as DefaultSource

__all__ = ["DefaultSource"]
