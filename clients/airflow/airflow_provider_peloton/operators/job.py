"""The operator: runs a batch job and waits for its end."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import grpc
import yaml
from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.execution_time.xcom import XCom

from airflow_provider_peloton.hooks.peloton import PelotonHook
from airflow_provider_peloton.triggers.job import PelotonJobTrigger
from airflow_provider_peloton.waiting import (
    SUCCEEDED,
    failures_query,
    first_failure,
    outcome,
    progress,
    stop_request,
)
from peloton.api.v0.job import job_pb2
from peloton.client import CallError, PelotonClient
from peloton.client.failures import CODES
from peloton.client.spec import parse_spec
from peloton.errors import PelotonError

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey

JOB_ID, JOB_URL = "job_id", "job_url"
"""Keys of what is given by XCom."""
LAST_OUTPUT_BYTES = 8192
STOP_SECONDS = 60.0
"""How long a task that is ended waits for the answer to the stop of its job."""
MOST_TRIES = 20
"""Tries of a task whose jobs are looked for."""
ENDED = frozenset({job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED})


class PelotonJobLink(BaseOperatorLink):
    """Link to the page of the job, which has its instances and their output."""

    name = "Peloton job"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the URL; empty where the connection has no `web_url`, or the job does not exist yet."""
        return str(XCom.get_value(ti_key=ti_key, key=JOB_URL) or "")


class PelotonJobOperator(BaseOperator):
    """Create a batch job, wait for its end, and fail unless it succeeds.

    The id of the job is what the task returns, and there by XCom as `job_id` as soon as the job exists. Where
    the worker of Airflow dies, the next try of the task takes the job that an earlier try has begun and that
    still goes on.

    :param spec: the job: a mapping, YAML text, or the name of a YAML file, which Airflow looks for beside the
        DAG and in its `template_searchpath`. Templates are rendered in all three.
    :param resource_pool: path of the pool of Peloton; empty where the spec names it (`pool` is Airflow's own)
    :param peloton_conn_id: the id of the connection
    :param deferrable: wait in Airflow's triggerer instead of a worker slot
    :param wait_for_completion: whether the task waits for the end of the job
    :param stop_on_kill: whether the job is stopped where a user or `execution_timeout` ends the task
    """

    template_fields: Sequence[str] = ("spec", "resource_pool", "peloton_conn_id")
    template_ext: Sequence[str] = (".yaml", ".yml")
    template_fields_renderers: ClassVar[dict[str, str]] = {"spec": "yaml"}
    ui_color = "#e4f0e8"
    operator_extra_links = (PelotonJobLink(),)

    def __init__(
        self,
        *,
        spec: Mapping[str, Any] | str,
        resource_pool: str = "",
        peloton_conn_id: str = PelotonHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        wait_for_completion: bool = True,
        stop_on_kill: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.resource_pool = resource_pool
        self.peloton_conn_id = peloton_conn_id
        self.deferrable = deferrable
        self.wait_for_completion = wait_for_completion
        self.stop_on_kill = stop_on_kill
        self.job_id = ""

    @cached_property
    def hook(self) -> PelotonHook:
        """The hook of the connection."""
        return PelotonHook(self.peloton_conn_id)

    def execute(self, context: Context) -> str:
        """Create the job, or take that of the try before, and wait for its end. Raises AirflowException."""
        config = self._config()
        with self.hook.get_conn() as client:
            self.job_id = self._running_before(client, context)
            if not self.job_id:
                self.job_id = job_id(context)
                client.jobs.create(self.resource_pool, config, self.job_id)
                self.log.info("job %s is created", self.job_id)
            self._publish(context)
            if not self.wait_for_completion:
                return self.job_id
            if self.deferrable:
                self._defer()
            return self._ended(client, self._waited(client))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> str:
        """Go on once the trigger has fired. Raises AirflowException unless the job has succeeded."""
        self.job_id = event[JOB_ID]
        with self.hook.get_conn() as client:
            return self._ended(client, event)

    def on_kill(self) -> None:
        """Stop the job, since the task is being ended."""
        if not self.job_id or not self.stop_on_kill:
            return
        # Airflow calls this in a signal handler. What that has interrupted may hold a lock that a call or a
        # line of the log takes: another thread waits for it.
        answered = threading.Event()
        threading.Thread(target=self._stop, args=(answered,), name="peloton-stop").start()
        answered.wait(STOP_SECONDS)

    def _stop(self, answered: threading.Event) -> None:
        """Stop the job, by a client of its own: the other one may be in the middle of a call."""
        problem = ""
        try:
            with self.hook.get_conn() as client:
                client.job_svc.Stop(stop_request(self.job_id))
        except (ValueError, PelotonError, grpc.RpcError) as error:
            problem = str(error)
        finally:
            answered.set()
        if problem:
            self.log.error("job %s is not stopped: %s", self.job_id, problem)
        else:
            self.log.info("stop job %s", self.job_id)

    def _config(self) -> job_pb2.JobConfig:
        text = self.spec if isinstance(self.spec, str) else yaml.safe_dump(dict(self.spec))
        return parse_spec(job_pb2.JobConfig, text, "spec")

    def _running_before(self, client: PelotonClient, context: Context) -> str:
        """Return the job of an earlier try that still goes on; an empty text where there is none."""
        for tries_ago in range(1, min(context["ti"].try_number, MOST_TRIES)):
            before = job_id(context, tries_ago)
            try:
                runtime = client.jobs.get(before).runtime
            except CallError as error:
                if error.code is not CODES.NOT_FOUND:
                    raise
                continue
            if runtime.state not in ENDED and runtime.goalState != job_pb2.KILLED:
                self.log.info("job %s of an earlier try goes on", before)
                return before
        return ""

    def _publish(self, context: Context) -> None:
        context["ti"].xcom_push(key=JOB_ID, value=self.job_id)
        if url := self.hook.job_url(self.job_id):
            self.log.info("instances and output: %s", url)
            context["ti"].xcom_push(key=JOB_URL, value=url)

    def _defer(self) -> None:
        seconds = self.execution_timeout.total_seconds() if self.execution_timeout else None
        end = None if seconds is None else time.time() + seconds
        trigger = PelotonJobTrigger(self.job_id, self.peloton_conn_id, end, self.stop_on_kill)
        self.defer(trigger=trigger, method_name="execute_complete")

    def _waited(self, client: PelotonClient) -> dict[str, Any]:
        told = client.jobs.wait(
            self.job_id, progress=lambda now: self.log.info("job %s is %s", self.job_id, progress(now))
        )
        return outcome(self.job_id, told)

    def _ended(self, client: PelotonClient, how: Mapping[str, Any]) -> str:
        """Return the id of a job that has succeeded. Raises AirflowException."""
        if how["state"] == SUCCEEDED:
            return self.job_id
        text = f"job {self.job_id} has not succeeded: {how['state']}"
        text += f": {how['reason']}" if how["reason"] else ""
        raise AirflowException(text + self._first_failure(client))

    def _first_failure(self, client: PelotonClient) -> str:
        """Return what the instance that failed first tells; put the end of its output into the log."""
        try:
            failed = first_failure(client.task_svc.Query(failures_query(self.job_id)).records)
            if failed is None:
                return ""
            for file in ("stdout", "stderr"):
                self._print_output(client, failed.instanceId, file)
        except CallError as error:
            self.log.warning("no output: %s", error)
        return f"; instance {failed.instanceId}: {failed.runtime.message or failed.runtime.reason}"

    def _print_output(self, client: PelotonClient, instance: int, file: str) -> None:
        last = b""
        for piece in client.jobs.logs(self.job_id, instance, file):
            last = (last + piece)[-LAST_OUTPUT_BYTES:]
        for line in last.decode(errors="replace").splitlines():
            self.log.info("instance %d, %s: %s", instance, file, line)


def job_id(context: Context, tries_ago: int = 0) -> str:
    """Return the id of the job of a try: always the same, so that what creates it may be repeated.

    The start of the DAG's run tells two installations of Airflow apart, which may have the same names.
    """
    ti, run = context["ti"], context["dag_run"]
    parts = (ti.dag_id, ti.run_id, run.start_date, ti.task_id, ti.map_index, ti.try_number - tries_ago)
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "\n".join(map(str, ("airflow", *parts)))))
