"""v1alpha job specs for tests, in text form where that reads best."""

from __future__ import annotations

from google.protobuf import text_format

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2

POOL = "b3f1c2de-0000-4000-8000-000000000001"

SERVICE = f"""
    name: "web" owner: "ann" owning_team: "infra" instance_count: 3
    respool_id {{ value: "{POOL}" }}
    labels {{ key: "tier" value: "front" }}
    default_spec {{
        labels {{ key: "app" value: "web" }}
        containers {{
            name: "main"
            resource {{ cpu_limit: 0.1 mem_limit_mb: 32 }}
            entrypoint {{ value: "serve --port 80" }}
            environment {{ name: "MODE" value: "live" }}
        }}
        mesos_spec {{ shell: true }}
    }}
"""


def job(text: str = "", base: str = SERVICE) -> stateless_pb2.JobSpec:
    """`base`, with `text` merged over it."""
    spec = stateless_pb2.JobSpec()
    text_format.Parse(base, spec)
    more = stateless_pb2.JobSpec()
    text_format.Parse(text, more)
    spec.MergeFrom(more)
    return spec


def pod(text: str) -> pod_pb2.PodSpec:
    spec = pod_pb2.PodSpec()
    text_format.Parse(text, spec)
    return spec
