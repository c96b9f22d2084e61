"""`peloton job stateless`, against a fake JobService."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.private.hostmgr.feasibility import feasibility_pb2

from .conftest import Run
from .fakes import FakeDaemons
from .stateless_answers import JOB, NOT_FOUND, POOL, STALE, STALE_BY_TEXT, answers, got

__all__ = ["answers"]
SPEC = """
name: web
InstanceCount: 3
default_spec: {Containers: [{name: main, entrypoint: {value: sleep 600}}]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "web.yaml"
    file.write_text(SPEC)
    return str(file)


def test_create_sends_the_spec_with_its_pool(run: Run, daemons: FakeDaemons, spec: str) -> None:
    flags = ("--maxInstanceRetries", "4", "--maxTolerableInstanceFailures", "5", "--start-paused")
    outcome = run("job", "stateless", "create", "/infra", spec, "2", *flags, "--opaque-data", "why")
    assert outcome == (0, f"Job {JOB} created, entity version 2-1-2\n", "")
    [request] = daemons.requests("CreateJob")
    assert (request.spec.name, request.spec.instance_count, request.spec.respool_id.value) == ("web", 3, POOL)
    assert request.spec.default_spec.containers[0].entrypoint.value == "sleep 600"
    assert request.create_spec == stateless_pb2.CreateSpec(
        batch_size=2, max_instance_retries=4, max_tolerable_instance_failures=5, start_paused=True
    )
    assert request.opaque_data.data == "why"


@pytest.mark.parametrize("command", ["create", "replace"])
def test_instances_that_no_host_could_take_are_warned_of(
    run: Run, daemons: FakeDaemons, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(
        "instance_count: 3\ndefault_spec: {containers: [{resource: {cpu_limit: 1}}]}\n"
        "instance_spec: {2: {containers: [{resource: {cpu_limit: 99}}]}}\n"
    )

    def checked(request: feasibility_pb2.CheckGangsRequest) -> feasibility_pb2.CheckGangsResponse:
        answer = feasibility_pb2.CheckGangsResponse()
        for gang in request.gangs:
            cpu = gang.members[0].filter.resourceConstraint.minimum.cpuLimit
            answer.verdicts.add(shortage=feasibility_pb2.Shortage(text="needs 99 cores") if cpu > 9 else None)
        return answer

    daemons.answers["CheckGangs"] = checked
    arguments = ["/infra", str(file), "1"] if command == "create" else [JOB, str(file), "1", "/infra"]
    outcome = run("job", "stateless", command, *arguments)
    assert (outcome.code, outcome.err) == (
        0,
        "warning: instance 2 cannot be placed, not even on empty hosts: needs 99 cores\n",
    )


def test_create_refuses_a_spec_with_a_typing_error(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("name: web\ndefaultspec: {containers: [{nmae: main}]}\n")
    outcome = run("job", "stateless", "create", "/infra", str(file), "1")
    assert (outcome.code, outcome.out) == (1, "")
    assert (
        outcome.err == f"peloton: {file}:2: defaultspec.containers[0].nmae: unknown key; did you mean name?\n"
    )
    assert not daemons.asked


def test_a_spec_that_names_another_pool_is_refused(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("name: web\nrespool_id: {value: other}\n")
    outcome = run("job", "stateless", "create", "/infra", str(file), "1")
    assert outcome.code == 1
    assert "respool_id: 'other' is not the pool /infra: leave it out of the spec" in outcome.err
    assert not daemons.requests("CreateJob")


def test_replace_sends_the_version_and_the_flags(run: Run, daemons: FakeDaemons, spec: str) -> None:
    flags = ("--maxInstanceRetries=4", "--maxTolerableInstanceFailures=5", "--rollbackOnFailure")
    more = ("--start-paused", "--opaque-data=why", "--in-place", "--start-pods")
    outcome = run("job", "stateless", "replace", JOB, spec, "3", "/infra", "1-1-1", *flags, *more)
    assert outcome == (0, f"Job {JOB} is being updated, entity version 2-1-2\n", "")
    [request] = daemons.requests("ReplaceJob")
    assert (request.job_id.value, request.version.value, request.spec.name) == (JOB, "1-1-1", "web")
    assert request.update_spec == stateless_pb2.UpdateSpec(
        batch_size=3,
        rollback_on_failure=True,
        max_instance_retries=4,
        max_tolerable_instance_failures=5,
        start_paused=True,
        in_place=True,
        start_pods=True,
    )
    assert request.opaque_data.data == "why"
    assert not request.secrets


@pytest.mark.parametrize("command", ["replace", "rollback"])
def test_an_update_names_the_secrets_that_there_are(
    run: Run, daemons: FakeDaemons, spec: str, command: str
) -> None:
    def with_secret(request: Any) -> Any:
        answer = got(request, "SUCCEEDED")
        if request.summary_only:
            answer.secrets.add(path="/etc/key").secret_id.value = "an id"
        return answer

    daemons.answers["GetJob"] = with_secret
    arguments = [spec, "1", "/infra", "1-1-1"] if command == "replace" else ["1", "1-0-0"]
    assert run("job", "stateless", command, JOB, *arguments).code == 0
    ((sent,),) = (request.secrets for request in daemons.requests("ReplaceJob"))
    assert (sent.secret_id.value, sent.path, sent.HasField("value")) == ("an id", "/etc/key", False)


def test_an_edited_entrypoint_beside_the_old_command_is_warned_of(
    run: Run, daemons: FakeDaemons, tmp_path: Path
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(
        "default_spec: {containers: [{command: {value: old}, entrypoint: {value: old}}]}\n"
        "instance_spec: {4: {containers: [{command: {value: old}, entrypoint: {value: new}}]}}\n"
    )
    outcome = run("job", "stateless", "replace", JOB, str(file), "1", "/infra")
    assert (outcome.code, outcome.err) == (
        0,
        f"warning: {file}: instance_spec[4].containers[0].entrypoint has no effect: it differs from command, "
        "which is used; leave out one\n",
    )


def test_replace_without_a_version_takes_the_present_one(run: Run, daemons: FakeDaemons, spec: str) -> None:
    assert run("job", "stateless", "replace", JOB, spec, "0", "/infra").code == 0
    assert daemons.requests("ReplaceJob")[0].version.value == "5-1-7"
    daemons.answers["ReplaceJob"] = STALE
    outcome = run("job", "stateless", "replace", JOB, spec, "0", "/infra")
    assert outcome.code == 1
    assert outcome.err == (
        f"peloton: job {JOB} was changed by others at the same time: look at it, then try again\n"
    )


@pytest.mark.parametrize("state", ["INITIALIZED", "ROLLING_FORWARD", "PAUSED", "ROLLING_BACKWARD"])
@pytest.mark.parametrize("command", ["replace", "rollback"])
def test_an_update_under_way_is_replaced_with_override_only(
    run: Run, daemons: FakeDaemons, spec: str, command: str, state: str
) -> None:
    daemons.answers["GetJob"] = lambda request: got(request, state)
    arguments = [spec, "1", "/infra"] if command == "replace" else ["1", "1-0-0"]
    outcome = run("job", "stateless", command, JOB, *arguments)
    assert outcome == (
        1,
        "",
        f"peloton: job {JOB}: an update is under way ({state}, 1 instance done, 2 to go): "
        "--override replaces it\n",
    )
    assert not daemons.requests("ReplaceJob")
    assert run("job", "stateless", command, JOB, *arguments, "-o").code == 0
    assert daemons.requests("ReplaceJob")[0].version.value == "5-1-7"


def test_rollback_replaces_with_the_spec_of_the_version(run: Run, daemons: FakeDaemons) -> None:
    outcome = run("job", "stateless", "rollback", JOB, "2", "3-1-4", "--in-place")
    assert outcome.out == f"Job {JOB} is being updated to its spec of 3-1-4, entity version 2-1-2\n"
    [request] = daemons.requests("ReplaceJob")
    assert (request.spec.name, request.version.value) == ("spec of 3-1-4", "5-1-7")
    assert (request.update_spec.batch_size, request.update_spec.in_place) == (2, True)


def test_replace_diff_prints_closed_ranges(run: Run, daemons: FakeDaemons, spec: str) -> None:
    def span(low: int, high: int) -> pod_pb2.InstanceIDRange:
        return pod_pb2.InstanceIDRange(**{"from": low, "to": high})

    daemons.answers["GetReplaceJobDiff"] = pb.GetReplaceJobDiffResponse(
        instances_added=[span(3, 3)],
        instances_updated=[span(0, 1), span(4, 9)],
        changes=[
            pb.InstanceChanges(instances=[span(0, 1)], fields=[pb.FieldChange(text="labels: tier a → b")])
        ],
    )
    outcome = run("job", "stateless", "replace-diff", JOB, spec, "/infra", "1-1-1")
    assert outcome.out == (
        "added: 3\nremoved: none\nupdated: 0-1, 4-9\n  0-1: labels: tier a → b\nunchanged: none\n"
    )
    [request] = daemons.requests("GetReplaceJobDiff")
    assert (request.version.value, request.spec.respool_id.value) == ("1-1-1", POOL)


def test_restart_sends_its_ranges(run: Run, daemons: FakeDaemons) -> None:
    outcome = run(
        *("job", "stateless", "restart", JOB, "1-1-1", "-r", "0:2", "-r", "4"),
        *("--batch-size", "3", "--in-place", "--opaque-data", "why"),
    )
    assert outcome == (0, f"Job {JOB} is being restarted, entity version 2-1-2\n", "")
    [request] = daemons.requests("RestartJob")
    wanted = request.restart_spec
    assert [(getattr(each, "from"), each.to) for each in wanted.ranges] == [(0, 2), (4, 5)]
    assert (wanted.batch_size, wanted.in_place, request.opaque_data.data) == (3, True, "why")


@pytest.mark.parametrize("state", ["KILLED", "SUCCEEDED", "FAILED"])
def test_the_stop_of_a_job_that_has_ended_says_so(run: Run, daemons: FakeDaemons, state: str) -> None:
    answer = pb.GetJobResponse()
    answer.summary.status.state = stateless_pb2.JobState.Value(f"JOB_STATE_{state}")
    daemons.answers["GetJob"] = answer
    outcome = run("job", "stateless", "stop", JOB, "1-1-1")
    assert outcome == (0, f"Job {JOB} has ended already: it is {state}\n", "")
    assert daemons.requests("StopJob")[0].version.value == "1-1-1"


@pytest.mark.parametrize(
    ("arguments", "method", "said"),
    [
        (("start",), "StartJob", f"Job {JOB} is being started, entity version 2-1-2"),
        (("stop",), "StopJob", f"Job {JOB} is being stopped, entity version 2-1-2"),
        (("delete",), "DeleteJob", f"Job {JOB} is being deleted"),
        (("workflow", "pause"), "PauseJobWorkflow", f"Workflow of job {JOB} paused, entity version 2-1-2"),
        (("workflow", "resume"), "ResumeJobWorkflow", f"Workflow of job {JOB} resumed, entity version 2-1-2"),
        (("workflow", "abort"), "AbortJobWorkflow", f"Workflow of job {JOB} aborted, entity version 2-1-2"),
    ],
)
def test_commands_of_a_version(
    run: Run, daemons: FakeDaemons, arguments: tuple[str, ...], method: str, said: str
) -> None:
    assert run("job", "stateless", *arguments, JOB, "1-1-1") == (0, f"{said}\n", "")
    assert daemons.requests(method)[0].version.value == "1-1-1"

    for stale in (STALE, STALE_BY_TEXT):
        daemons.answers[method] = stale
        outcome = run("job", "stateless", *arguments, JOB, "1-1-1")
        assert outcome == (
            1,
            "",
            f"peloton: job {JOB}: 1-1-1 is not its present entity version (unexpected entity version): "
            f"`peloton job stateless get {JOB} --summaryonly` shows it, as status.version\n",
        )

    daemons.answers[method] = NOT_FOUND
    outcome = run("job", "stateless", *arguments, JOB, "1-1-1")
    assert outcome == (1, "", f"peloton: job {JOB}: job not found (NOT_FOUND)\n")

    asked = len(daemons.asked)
    outcome = run("job", "stateless", *arguments, JOB, "1")
    assert (outcome.code, outcome.out, len(daemons.asked)) == (2, "", asked)
    assert (
        "'1' is not an entity version, such as 3-1-2: `peloton job stateless get JOB --summaryonly` shows "
        "the present one"
    ) in outcome.err


def test_delete_force(run: Run, daemons: FakeDaemons) -> None:
    outcome = run("job", "stateless", "delete", JOB, "1-1-1", "-f")
    assert outcome == (0, f"Job {JOB} is being deleted\n", "")
    assert daemons.requests("DeleteJob")[0].force


def test_opaque_data_of_a_pause(run: Run, daemons: FakeDaemons) -> None:
    run("job", "stateless", "workflow", "pause", JOB, "1-1-1", "--opaque-data", "why")
    assert daemons.requests("PauseJobWorkflow")[0].opaque_data.data == "why"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", "/infra", "web.yaml", "one"), "'one' is not a whole number from 0 to 4294967295"),
        (("create", "/infra", "web.yaml", "4294967296"), "is not a whole number from 0 to 4294967295"),
        (("create", "/infra", "web.yaml"), "Missing argument 'BATCH-SIZE'"),
        (("restart", JOB, "1-1-1", "--batch-size", "-1"), "'-1' is not a whole number from 0 to"),
        (("restart", JOB, "1-1-1", "-r", "5:2"), "'5:2' is empty"),
        (("replace", JOB, "web.yaml", "1", "/infra", "-"), "'-' is not an entity version, such as 3-1-2"),
        (("replace", JOB, "web.yaml", "1", "/infra", "--maxInstanceRetries", "-1"), "whole number from 0"),
        (("list-updates", JOB, "--limit", "0"), "'0' is not a whole number from 1 to 4294967295"),
        (("workflow", "events", JOB, "x"), "'x' is not a whole number from 0 to 4294967295"),
        (("workflow", "puase", JOB, "1-1-1"), "Did you mean 'pause'?"),
        (("query", "-s", "RUNING"), "did you mean RUNNING?"),
        (("get", JOB, "--jobversion", "1-1-1", "--summaryonly"), "do not go together"),
    ],
)
def test_wrong_arguments_exit_with_2(
    run: Run, daemons: FakeDaemons, arguments: tuple[str, ...], said: str
) -> None:
    outcome = run("job", "stateless", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert not daemons.asked
