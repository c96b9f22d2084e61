"""Job configs for tests, in text form where that reads best."""

from __future__ import annotations

from google.protobuf import text_format

from peloton.api.v0.job import job_pb2
from peloton.model.pool import PoolConfig

POOL = "b3f1c2de-0000-4000-8000-000000000001"
PARENT = "b3f1c2de-0000-4000-8000-000000000002"
POOLS = (
    PoolConfig(id="root", name="root", parent=""),
    PoolConfig(id=PARENT, name="teams", parent="root"),
    PoolConfig(id=POOL, name="batch", parent=PARENT),
)

BATCH = f"""
    name: "hello" owningTeam: "infra" instanceCount: 3
    respoolID {{ value: "{POOL}" }}
    defaultConfig {{
        command {{ value: "echo hello" }}
        resource {{ cpuLimit: 0.1 memLimitMb: 16 }}
    }}
"""
SERVICE = BATCH + "type: SERVICE"
NO_COMMAND = f'''
    name: "x" instanceCount: 2 respoolID {{ value: "{POOL}" }}
    defaultConfig {{ resource {{ cpuLimit: 0.1 }} }}
'''
EXECUTOR = 'executor { type: CUSTOM executor_id { value: "e" } data: "x" }'


def job(text: str = "", base: str = BATCH) -> job_pb2.JobConfig:
    """`base`, with `text` merged over it."""
    config = job_pb2.JobConfig()
    text_format.Parse(base, config)
    more = job_pb2.JobConfig()
    text_format.Parse(text, more)
    config.MergeFrom(more)
    return config
