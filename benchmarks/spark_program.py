"""The application of `benchmarks.spark`: a task, then more executors."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> None:
    """Print the figures.

    Arguments: the number of executors, when the application was submitted, a file to wait for in the end, and
    "launches" where the executors do nothing.
    """
    wanted, submitted, end = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    context = SparkSession.builder.appName("benchmark").getOrCreate().sparkContext
    only_launches = sys.argv[4:] == ["launches"]
    if not only_launches:
        [begun] = context.parallelize([0], 1).map(lambda _: time.time()).collect()
        print(f"seconds from submit to first task: {begun - submitted:.1f}", flush=True)
    scala = context._jsc.sc()
    print(f"asked at {time.time():.3f}, job {context.applicationId}", flush=True)
    asked = time.monotonic()
    scala.requestExecutors(wanted + 1)  # Spark does not count the first one, which it has not asked for so
    if not only_launches:
        while len(scala.statusTracker().getExecutorInfos()) - 2 < wanted:  # the driver, and the first one
            time.sleep(0.05)
        print(f"executors per second: {wanted / (time.monotonic() - asked):.2f}", flush=True)
    print("there", flush=True)
    while not end.exists():
        time.sleep(0.05)
    context.stop()


if __name__ == "__main__":
    main()
