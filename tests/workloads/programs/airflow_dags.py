"""DAGs for the tests of the Airflow provider; Airflow reads this file as one of its DAG folder."""

from __future__ import annotations

import datetime
from typing import Any

from airflow.sdk import DAG, task
from airflow_provider_peloton.operators.job import PelotonJobOperator

SMALL = {"cpuLimit": 0.1, "memLimitMb": 16, "diskLimitMb": 8}


def job(command: str, instances: int = 1) -> dict[str, Any]:
    return {
        "name": "airflow",
        "instanceCount": instances,
        "sla": {"preemptible": True},
        "defaultConfig": {"resource": SMALL, "command": {"shell": True, "value": command}},
    }


def told(kind: str, deferrable: bool) -> DAG:
    """Return a DAG of a job from a file, and a task that gets its id."""
    with DAG(dag_id=f"told_{kind}", params={"word": "greetings"}) as dag:
        run = PelotonJobOperator(task_id="run", resource_pool="/test", spec="job.yaml", deferrable=deferrable)

        @task
        def after(job_id: str, returned: str) -> None:
            print("after", job_id, returned, flush=True)

        after(run.output["job_id"], run.output)
    return dag


def single(dag_id: str, command: str, instances: int = 1, **arguments: Any) -> DAG:
    with DAG(dag_id=dag_id) as dag:
        PelotonJobOperator(task_id="run", resource_pool="/test", spec=job(command, instances), **arguments)
    return dag


SHORT = datetime.timedelta(seconds=6)
plain = told("plain", deferrable=False)
deferred = told("deferred", deferrable=True)
for kind, deferrable in (("plain", False), ("deferred", True)):
    more: dict[str, Any] = {"deferrable": deferrable}
    failing = "echo before; echo why >&2; test $PELOTON_INSTANCE_ID = 0 || exit 3"
    globals()[f"failing_{kind}"] = single(f"failing_{kind}", failing, 2, **more)
    globals()[f"slow_{kind}"] = single(f"slow_{kind}", "sleep 600", execution_timeout=SHORT, **more)
endless = single("endless", "sleep 600")
wrong = single("wrong", "true", 0)
