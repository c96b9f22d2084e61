"""Estimates in a process of their own, one at a time: they take seconds, and the web UI goes on meanwhile."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from typing import cast

from peloton.client.extensions import ESTIMATES, START, extension
from peloton.errors import Unavailable
from peloton.model.amounts import duration
from peloton.model.estimate import StartEstimate
from peloton.model.live_state import LiveState

LONGEST_SECONDS = 60.0
"""An estimate is bounded in CPU time: on a busy machine it takes longer."""
NICE = 10
_one_at_a_time = asyncio.Semaphore(1)


async def estimated(state: LiveState, job_id: str) -> StartEstimate | None:
    """Return when a job will start; None where nothing here makes estimates. Raises Unavailable."""
    async with _one_at_a_time:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        try:
            given = pickle.dumps((state, job_id))
            answer, _ = await asyncio.wait_for(process.communicate(given), LONGEST_SECONDS)
        except TimeoutError:
            raise Unavailable(f"the estimate has taken longer than {duration(LONGEST_SECONDS)}") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise Unavailable("the process of the estimate has failed: the log of the web UI says how")
        # What comes is of our own child.
        return cast("StartEstimate | None", pickle.loads(answer))


def main() -> None:
    """Estimate what standard input asks for."""
    os.nice(NICE)
    state, job_id = pickle.load(sys.stdin.buffer)
    make = extension(ESTIMATES, START)
    sys.stdout.buffer.write(pickle.dumps(None if make is None else make(state, job_id)))


if __name__ == "__main__":
    main()
