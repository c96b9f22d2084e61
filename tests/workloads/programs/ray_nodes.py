"""Compute squares on Ray's nodes until a file is there, and tell their number: `ray_nodes.py FILE`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import ray  # type: ignore[import-not-found]

AT_ONCE = 6


@ray.remote(max_retries=-1, scheduling_strategy="SPREAD")
def square(number: int) -> int:
    """Return the square of a number, after a moment in which its node may go."""
    time.sleep(0.2)
    return number * number


def main() -> None:
    """Go on whoever joins and leaves, and compare the sum in the end."""
    done, total, count, before = Path(sys.argv[1]), 0, 0, 0
    ray.init(logging_level="error")
    while not done.exists():
        total += sum(ray.get([square.remote(count + each) for each in range(AT_ONCE)]))
        count += AT_ONCE
        alive = sum(each["Alive"] for each in ray.nodes())
        if alive != before:
            print(f"{alive} nodes after {count} squares", flush=True)
        before = alive
    print(
        "the sum is", "right" if total == sum(each * each for each in range(count)) else "wrong", flush=True
    )


if __name__ == "__main__":
    main()
