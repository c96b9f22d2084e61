"""Shuffle again and again, so that executors can be lost meanwhile; for the tests.

Arguments: how many rounds at least, and a file; the rounds go on until it is there.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

PARTS, ROWS = 12, 60_000


def main() -> None:
    """Print each round's result, which is always the same, and how many differ."""
    least, end = int(sys.argv[1]), Path(sys.argv[2])
    context = SparkSession.builder.appName("shuffles").getOrCreate().sparkContext
    expected = sorted(_alone().items())
    rounds = wrong = 0
    while rounds < least or not end.exists():
        pairs = context.parallelize(range(ROWS), PARTS).map(lambda n: (n * 7919 % 101, n))
        found = sorted(pairs.reduceByKey(lambda a, b: a + b, PARTS).collect())
        rounds += 1
        wrong += found != expected
        print(f"round {rounds}", flush=True)
    print(f"{rounds} rounds, {wrong} wrong")
    context.stop()


def _alone() -> dict[int, int]:
    sums: dict[int, int] = {}
    for number in range(ROWS):
        key = number * 7919 % 101
        sums[key] = sums.get(key, 0) + number
    return sums


if __name__ == "__main__":
    main()
