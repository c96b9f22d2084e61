"""Grow and shrink by dynamic allocation, and tell in how many seconds; for the tests."""

import sys
import threading
import time

from pyspark.sql import SparkSession

WORK_SECONDS = 20


def work(number: int) -> int:
    """Keep an executor busy for a while."""
    time.sleep(WORK_SECONDS)
    return number


def main() -> None:
    """Have work for as many executors as the first argument says, then none."""
    wanted, patience = int(sys.argv[1]), float(sys.argv[2])
    context = SparkSession.builder.appName("load").getOrCreate().sparkContext
    status = context._jsc.sc().statusTracker()

    def reached(executors: int) -> float:
        begun = time.monotonic()
        while (now := len(status.getExecutorInfos()) - 1) != executors:  # the driver is one of them
            if time.monotonic() - begun > patience:
                sys.exit(f"{now} executors after {patience} s, not {executors}")
            time.sleep(0.1)
        return time.monotonic() - begun

    reached(1)
    found: list[int] = []
    load = context.parallelize(range(wanted), wanted).map(work)
    thread = threading.Thread(target=lambda: found.append(load.sum()))
    thread.start()
    print(f"grew to {wanted} in {reached(wanted):.1f} s", flush=True)
    thread.join()
    print(f"sum {found[0]}")
    print(f"shrank to 1 in {reached(1):.1f} s", flush=True)
    context.stop()


if __name__ == "__main__":
    main()
