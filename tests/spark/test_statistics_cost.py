"""The statistics of the last hours cost what ended in them, not what the archive holds: the server counts the rows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from django_dbqueue.models import ArchivedMessage, QueueStatistic
from django_dbqueue.spark.jobs import statistics
from django_dbqueue.spark.jobs.config import StatisticsConfig
from tests.plans.crowd import gather_statistics
from tests.spark.archives import archive_by_and_by
from tests.spark.table_readers import NOON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]

OLD, NEW = 20_000, 200
STEP = timedelta(minutes=5)

if settings.TEST_DATABASE != "sqlite":
    from tests.spark.rows_read import counted

    def test_the_archive_before_the_hours_that_are_computed_is_not_read(
        spark: SparkSession, credentials_file: str
    ) -> None:
        archive_by_and_by(OLD, begin=NOON - OLD * STEP, step=STEP)
        archive_by_and_by(NEW, begin=NOON, step=timedelta(seconds=1), first=OLD + 1)
        gather_statistics(ArchivedMessage)
        with counted(ArchivedMessage) as rows_read:
            result = statistics.run(spark, StatisticsConfig(credentials_file=credentials_file, since=NOON))
            assert NEW <= rows_read() <= 10 * NEW
        assert result.messages == NEW
        assert sum(QueueStatistic.objects.values_list("messages", flat=True)) == NEW
