"""`peloton watch job`, `pod` and `cancel`."""

from __future__ import annotations

import json

import grpc

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb

from .conftest import Run
from .fakes import FakeDaemons, Stream

JOB = "a0000000-0000-4000-8000-00000000000a"
FIRST = pb.WatchResponse(watch_id="w1", revision=1)
ABORTED = (grpc.StatusCode.ABORTED, "the watcher is more than 100 messages behind: watch again")


def test_pods_are_printed_until_the_watch_ends(run: Run, daemons: FakeDaemons) -> None:
    change = pb.WatchResponse(revision=7, pods_not_found=[peloton_pb2.PodName(value=f"{JOB}-9")])
    status = pod_pb2.PodStatus(state=pod_pb2.POD_STATE_RUNNING, host="h1")
    change.pods.add(pod_name=peloton_pb2.PodName(value=f"{JOB}-0"), status=status)
    daemons.answers["Watch"] = Stream(FIRST, change, ABORTED)
    outcome = run("watch", "pod", JOB, f"{JOB}-0", "-l", "a=b")
    assert outcome.out == f"watch w1\n7 pod {JOB}-0 RUNNING h1\n7 pod {JOB}-9 does not exist\n"
    assert outcome.code == 1
    assert "more than 100 messages behind" in outcome.err
    (request,) = daemons.requests("Watch")
    assert request.pod_filter.job_id.value == JOB
    assert [name.value for name in request.pod_filter.pod_names] == [f"{JOB}-0"]
    assert [(label.key, label.value) for label in request.pod_filter.labels] == [("a", "b")]


def test_jobs_are_printed(run: Run, daemons: FakeDaemons) -> None:
    change = pb.WatchResponse(revision=7, stateless_jobs_not_found=[peloton_pb2.JobID(value="gone")])
    status = stateless_pb2.JobStatus(state=stateless_pb2.JOB_STATE_RUNNING)
    change.stateless_jobs.add(job_id=peloton_pb2.JobID(value=JOB), name="web", status=status)
    daemons.answers["Watch"] = Stream(FIRST, change)
    outcome = run("watch", "job", JOB)
    assert outcome.out == f"watch w1\n7 job {JOB} RUNNING web\n7 job gone does not exist\n"
    assert outcome.code == 0
    (request,) = daemons.requests("Watch")
    assert [job.value for job in request.stateless_job_filter.job_ids] == [JOB]


def test_all_are_watched_without_arguments_also_as_json(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Watch"] = Stream(FIRST)
    assert json.loads(run("-j", "watch", "pod").out)["watch_id"] == "w1"
    run("watch", "job")
    pods, jobs = daemons.requests("Watch")
    assert pods.HasField("pod_filter")
    assert jobs.HasField("stateless_job_filter")


def test_cancel(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Cancel"] = pb.CancelResponse()
    assert run("watch", "cancel", "w1").out == "Watch w1 cancelled\n"
    daemons.answers["Cancel"] = (grpc.StatusCode.NOT_FOUND, "watch_id: there is no watch 'w1'")
    outcome = run("watch", "cancel", "w1")
    assert outcome.code == 1
    assert "there is no watch 'w1'" in outcome.err
