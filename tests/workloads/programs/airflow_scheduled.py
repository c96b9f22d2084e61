"""A DAG that Airflow's scheduler runs once; the test that starts its processes gives it a folder."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from airflow.sdk import DAG, task
from airflow_provider_peloton.operators.job import PelotonJobOperator

FOLDER = os.environ["TEST_FOLDER"]
"""Where the job waits for `done`, and the last task writes `told`."""
JOB = {
    "name": "scheduled",
    "sla": {"preemptible": True},
    "instanceCount": 1,
    "defaultConfig": {
        "resource": {"cpuLimit": 0.1, "memLimitMb": 16, "diskLimitMb": 8},
        "command": {"shell": True, "value": f"until [ -e {FOLDER}/done ]; do sleep 0.2; done"},
    },
}

with DAG("scheduled", schedule="@once", start_date=datetime.datetime(2026, 1, 1), catchup=False):
    run = PelotonJobOperator(task_id="run", resource_pool="/test", spec=JOB, deferrable=True)

    @task
    def after(job_id: str) -> None:
        """Tell the id of the job."""
        Path(FOLDER, "told").write_text(job_id)

    after(run.output)
