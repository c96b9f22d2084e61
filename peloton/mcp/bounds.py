"""Types of arguments, with their bounds: what is longer or larger is refused before anything is called."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MOST_ROWS = 100
MOST_SPEC_CHARACTERS = 256 * 1024
MOST_LOG_BYTES = 64 * 1024
MOST_BATCH = 100_000
MOST_INSTANCE = 2**31 - 1

JobName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        description="a job: its name, alone or behind its pool's path (/a/b/web), its id, or the first 4 "
        "characters of it or more",
    ),
]
PoolPath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        pattern="^/",
        description="the path of a pool, such as /a/b; / is the root",
    ),
]
AnyPool = Annotated[str, Field(max_length=1024, description="the path of a pool; empty: all pools")]
Instance = Annotated[int, Field(ge=0, le=MOST_INSTANCE, description="number of an instance, from 0")]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, description=f"most rows of the answer, up to {MOST_ROWS}")]
Skip = Annotated[int, Field(ge=0, le=10_000_000, description="rows to leave out first, to read on")]
Name = Annotated[str, Field(max_length=1024)]
Names = Annotated[list[Name], Field(max_length=100)]
Spec = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MOST_SPEC_CHARACTERS,
        description="a spec as YAML, as `peloton run FILE` takes it",
    ),
]
BatchSize = Annotated[
    int, Field(ge=0, le=MOST_BATCH, description="instances that are restarted at a time; 0: all at once")
]
LogBytes = Annotated[
    int, Field(ge=1, le=MOST_LOG_BYTES, description=f"bytes from the end of the file, up to {MOST_LOG_BYTES}")
]
