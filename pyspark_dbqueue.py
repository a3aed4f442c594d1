"""Found by Spark, which imports the modules named ``pyspark_*`` and registers their ``DefaultSource``."""

from django_dbqueue.spark.source import DbQueueDataSource as DefaultSource

__all__ = ["DefaultSource"]
