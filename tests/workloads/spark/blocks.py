"""Cache and shuffle, wait, and use both again; for the tests.

Arguments: a folder, in which each computation of a partition leaves a mark, and a file to wait for.
"""

import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

PARTS, ROWS = 6, 600


def main() -> None:
    """Print whether what is computed again is as before."""
    marks, again = sys.argv[1], Path(sys.argv[2])
    context = SparkSession.builder.appName("blocks").getOrCreate().sparkContext

    def marked(what: str, part: int, rows: Iterable[int]) -> Iterator[tuple[int, int]]:
        (Path(marks) / f"{what}-{part}-{uuid.uuid4().hex}").touch()
        for row in rows:
            yield row % 7, row

    numbers = context.parallelize(range(ROWS), PARTS)
    cached = numbers.mapPartitionsWithIndex(lambda part, rows: marked("cached", part, rows)).cache()
    mapped = numbers.mapPartitionsWithIndex(lambda part, rows: marked("mapped", part, rows))
    shuffled = mapped.reduceByKey(lambda a, b: a + b, PARTS)
    first = cached.count(), sorted(shuffled.collect())
    print(f"computed {first[0]}", flush=True)
    parent = os.getppid()
    while not again.exists():
        if os.getppid() != parent:
            sys.exit("spark-submit has ended")
        time.sleep(0.1)
    print(f"equal {first == (cached.count(), sorted(shuffled.collect()))}")
    context.stop()


if __name__ == "__main__":
    main()
