"""What Airflow calls of the provider, one by one: `python airflow_calls.py NAME`."""

from __future__ import annotations

import asyncio
import datetime
import sys
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import AirflowException, TaskDeferred
from airflow_dags import job
from airflow_provider_peloton.hooks.peloton import PelotonHook
from airflow_provider_peloton.operators.job import PelotonJobOperator
from airflow_provider_peloton.triggers.job import PelotonJobTrigger


def say(*words: object) -> None:
    print(*words, flush=True)


def context(try_number: int) -> dict[str, Any]:
    given: dict[str, Any] = {}
    ti = SimpleNamespace(
        dag_id="d",
        run_id="r",
        task_id="t",
        map_index=-1,
        try_number=try_number,
        xcom_push=lambda key, value: given.update({key: value}),
    )
    start = datetime.datetime.now(datetime.UTC) if try_number == 1 else BEGUN[0]
    BEGUN[:] = [start]
    return {"ti": ti, "dag_run": SimpleNamespace(start_date=start), "given": given}


BEGUN: list[datetime.datetime] = []


def operator(**arguments: Any) -> PelotonJobOperator:
    return PelotonJobOperator(task_id="t", resource_pool="/test", spec=job("sleep 600"), **arguments)


def tries() -> None:
    """The second and third try take the job of the first, which was left when the worker died."""
    found = []
    for number in (1, 2, 3):
        one = operator(deferrable=True)
        try:
            one.execute(context(number))
        except TaskDeferred as deferral:
            found.append(deferral.trigger.job_id)
    say("jobs", *found)
    one.on_kill()
    again = context(4)
    try:
        operator(deferrable=True).execute(again)
    except TaskDeferred as deferral:
        say("new", deferral.trigger.job_id, again["given"]["job_id"], again["given"]["job_url"])
        asyncio.run(killed(deferral.trigger))


async def killed(trigger: PelotonJobTrigger) -> None:
    """A trigger whose task a user ends, after the triggerer has made it of what Airflow stores."""
    path, arguments = trigger.serialize()
    assert path == "airflow_provider_peloton.triggers.job.PelotonJobTrigger"
    made = PelotonJobTrigger(**arguments)
    events = made.run()
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.5)
    await made.on_kill()
    event = await asyncio.wait_for(waiting, 60)
    say("event", event.payload["state"])
    try:
        operator().execute_complete({}, event.payload)
    except AirflowException as error:
        say("failed", error)


def connections() -> None:
    for name in sys.argv[2:]:
        say(name, *PelotonHook(name).test_connection())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
