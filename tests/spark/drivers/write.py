"""Writes 2,000 keyed rows as one job, or a stream of three batches: ``write.py batch|stream CREDENTIALS DIRECTORY``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django_dbqueue.spark import build_session, enqueue_dataframe

QUEUE = "killed"


def main(how: str, credentials: str, directory: Path) -> None:
    (directory / "driver").write_text(str(os.getpgid(0)))
    spark = build_session("driver", master="local[2]", settings={"spark.driver.memory": "768m"})
    spark.sparkContext.setLogLevel("ERROR")
    if how == "batch":
        frame = spark.range(0, 2000, 1, 2).selectExpr("id as payload", "concat('k', id) as key")
        print(enqueue_dataframe(frame, queue=QUEUE, job_id="job", credentials_file=credentials, batch_size=200))
    else:
        frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(directory / "source"))
        writer = frame.selectExpr("id as payload").writeStream.format("dbqueue").trigger(availableNow=True)
        options = {"credentials_file": credentials, "queue": QUEUE, "job_id": "stream"}
        writer.options(checkpointLocation=str(directory / "checkpoint"), **options).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
