"""The application of `benchmarks.spark`: a task, then more executors."""

import sys
import time

from pyspark.sql import SparkSession


def main() -> None:
    """Print the figures; arguments are the number of executors and when the application was submitted."""
    wanted, submitted = int(sys.argv[1]), float(sys.argv[2])
    context = SparkSession.builder.appName("benchmark").getOrCreate().sparkContext
    [begun] = context.parallelize([0], 1).map(lambda _: time.time()).collect()
    print(f"seconds from submit to first task: {begun - submitted:.1f}")
    scala = context._jsc.sc()
    asked = time.monotonic()
    scala.requestExecutors(wanted)
    while len(scala.statusTracker().getExecutorInfos()) - 2 < wanted:  # the driver, and the first one
        time.sleep(0.05)
    print(f"executors per second: {wanted / (time.monotonic() - asked):.2f}")
    context.stop()


if __name__ == "__main__":
    main()
