"""Write jobs.jsonl: three days of two teams, whose jobs ask for GPUs. The same each time.

Research trains day and night, with jobs of 1 to 8 GPUs; production has many small jobs by day.

    python examples/simulator/generate.py > examples/simulator/jobs.jsonl
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

HOUR = 3600
END = 72 * HOUR


def research(chance: Random) -> Iterator[dict[str, Any]]:
    """Yield a training job every 15 minutes in the mean; half of them take more than an hour and a half."""
    at = 0.0
    while (at := at + chance.expovariate(1 / (HOUR / 4))) < END:
        seconds = min(12 * HOUR, chance.lognormvariate(8.6, 1.0))
        gpus = chance.choice((1, 1, 2, 4, 8))
        yield job("train", at, "/research", seconds, gpus)


def production(chance: Random) -> Iterator[dict[str, Any]]:
    """Yield a job every six minutes in the mean, from 8 to 18 o'clock."""
    at = 0.0
    while (at := at + chance.expovariate(1 / (HOUR / 10))) < END:
        if 8 <= at / HOUR % 24 < 18:
            yield job("score", at, "/production", chance.uniform(1200, 5400), chance.choice((1, 2)))


def job(kind: str, submit: float, pool: str, seconds: float, gpus: int) -> dict[str, Any]:
    """Return a job as the trace has it."""
    return {
        "name": f"{kind}-{submit:.0f}", "submit": round(submit), "pool": pool, "seconds": round(seconds),
        "cpu": 4 * gpus, "gpu": gpus, "class": kind,
    }  # fmt: skip


def main() -> None:
    """Print the jobs in the order of their creation."""
    chance = Random(7)
    jobs = [*research(chance), *production(chance)]
    for each in sorted(jobs, key=lambda each: each["submit"]):
        print(json.dumps(each, separators=(",", ":")))


if __name__ == "__main__":
    main()
