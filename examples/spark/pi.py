"""Estimate pi with random points, on as many tasks as the first argument says."""

import sys
from random import Random

from pyspark.sql import SparkSession

POINTS = 100_000


def inside(seed: int) -> int:
    """Return how many of POINTS points of a square are in its circle."""
    chance = Random(seed)
    return sum(chance.uniform(-1, 1) ** 2 + chance.uniform(-1, 1) ** 2 <= 1 for _ in range(POINTS))


def main() -> None:
    """Print what all tasks have found."""
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    spark = SparkSession.builder.appName("pi").getOrCreate()
    found = spark.sparkContext.parallelize(range(tasks), tasks).map(inside).sum()
    print(f"pi is roughly {4 * found / (tasks * POINTS)}")
    spark.stop()


if __name__ == "__main__":
    main()
