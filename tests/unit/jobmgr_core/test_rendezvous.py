"""What runs are told of their gang and of their peer."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmgr.clients.rendezvous import tell
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.task.rendezvous import (
    LISTED_BYTES,
    Meeting,
    Member,
    meeting_of,
    meeting_variables,
    member_of,
    peer_variables,
)
from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.model.workload import Framework
from peloton.wire.job import job_spec
from peloton.wire.validation.job import validated
from tests.unit.jobmgr_services.configs import job as config_of

PORT = 'ports { name: "meet" envName: "MEET" }'
GANG = f"sla {{ minimumRunningInstances: 3 }} defaultConfig {{ {PORT} }}"
TWO_ON_A_HOST = ("h1", "h2", "h1")


def placed(text: str, *hosts: str) -> CachedJob:
    """A job whose instances have hosts, and ports from 31000 on; empty: waits."""
    spec = job_spec(validated(config_of(text)), 1)
    job = CachedJob("j", spec, JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 1, 1))
    for instance, host in enumerate(hosts):
        state = TaskState.LAUNCHED if host else TaskState.INITIALIZED
        ports = {"meet": 31000 + instance} if host else {}
        runtime = TaskRuntime(state, TaskState.SUCCEEDED, 1, 1, 1, 1, host=host, ports=ports)
        job.put(instance, runtime)
    return job


def told(framework: str, rank: int, *hosts: str, more: str = "") -> dict[str, str]:
    job = placed(f"{GANG} workload {{ rendezvous: true framework: FRAMEWORK_{framework} }} {more}", *hosts)
    return meeting_variables(meeting_of(job, 1), rank)


def test_each_member_gets_size_rank_members_and_the_first_address() -> None:
    assert told("NONE", 2, *TWO_ON_A_HOST) == {
        "PELOTON_SIZE": "3",
        "PELOTON_RANK": "2",
        "PELOTON_LOCAL_SIZE": "2",
        "PELOTON_LOCAL_RANK": "1",
        "PELOTON_RANK0_ADDRESS": "h1:31000",
        "PELOTON_MEMBERS": "h1:31000,h2:31001,h1:31002",
    }


def test_members_of_an_elastic_gang_are_told_of_those_of_their_round() -> None:
    job = placed(
        f"sla {{ minimumRunningInstances: 1 }} workload {{ elastic {{}} }} defaultConfig {{ {PORT} }}"
    )
    rows = [("h1", 2), ("", 2), ("h3", 2)]
    for instance, (host, run) in enumerate(rows):
        ports = {"meet": 31000 + instance} if host else {}
        state = TaskState.LAUNCHED if host else TaskState.PENDING
        runtime = TaskRuntime(state, TaskState.SUCCEEDED, run, 1, 1, run, host=host, ports=ports)
        job.put(instance, runtime)
    meeting = meeting_of(job, 1, run=2)
    assert [str(member) for member in meeting.members] == ["h1:31000", "h3:31002"]
    told = meeting_variables(meeting, meeting.rank(2))
    assert (told["PELOTON_SIZE"], told["PELOTON_RANK"]) == ("2", "1")


FRAMEWORKS = {
    "TORCH": {
        "MASTER_ADDR": "h1",
        "MASTER_PORT": "31000",
        "WORLD_SIZE": "3",
        "RANK": "1",
        "NODE_RANK": "1",
        "GROUP_RANK": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "h1",
        "PET_MASTER_PORT": "31000",
    },
    "JAX": {"JAX_COORDINATOR_ADDRESS": "h1:31000", "JAX_NUM_PROCESSES": "3", "JAX_PROCESS_ID": "1"},
    "HOROVOD": {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "h1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "31000",
        "HOROVOD_HOSTNAME": "h2",
        "HOROVOD_RANK": "1",
        "HOROVOD_SIZE": "3",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "3",
    },
    "RAY": {"RAY_ADDRESS": "h1:31000"},
    "MPI": {},
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_gets_the_variables_that_it_reads(framework: str) -> None:
    variables = told(framework, 1, *TWO_ON_A_HOST)
    own = {name: value for name, value in variables.items() if not name.startswith("PELOTON_")}
    assert own == FRAMEWORKS[framework]


def test_tensorflow_gets_its_cluster_by_role() -> None:
    roles = (
        'instanceConfig { key: 0 value { workload { role: "chief" } } } '
        'instanceConfig { key: 2 value { workload { role: "ps" } } }'
    )
    cluster = {"chief": ["h1:31000"], "worker": ["h2:31001"], "ps": ["h1:31002"]}
    tasks = [("chief", 0), ("worker", 0), ("ps", 0)]
    for rank, (role, index) in enumerate(tasks):
        variables = told("TENSORFLOW", rank, *TWO_ON_A_HOST, more=roles)
        assert json.loads(variables["TF_CONFIG"]) == {
            "cluster": cluster,
            "task": {"type": role, "index": index},
        }


def test_an_evaluator_is_no_part_of_tensorflow_s_cluster() -> None:
    more = 'instanceConfig { key: 2 value { workload { role: "evaluator" } } }'
    told_to = json.loads(told("TENSORFLOW", 2, *TWO_ON_A_HOST, more=more)["TF_CONFIG"])
    assert told_to["task"] == {"type": "evaluator", "index": 0}
    assert told_to["cluster"] == {"worker": ["h1:31000", "h2:31001"]}


def test_a_member_without_a_host_keeps_its_place_in_the_list() -> None:
    assert told("NONE", 0, "h1", "", "h3")["PELOTON_MEMBERS"] == "h1:31000,-,h3:31002"


def test_hosts_have_the_names_of_mesos_or_the_address_that_stands_for_all() -> None:
    job = placed(f"{GANG} workload {{ rendezvous: true }}", "east/h1", "east/h2", "west/h1")
    assert [str(member) for member in meeting_of(job, 1).members] == ["h1:31000", "h2:31001", "h1:31002"]
    told_all = meeting_variables(meeting_of(job, 1, "127.0.0.1"), 2)
    assert told_all["PELOTON_MEMBERS"] == "127.0.0.1:31000,127.0.0.1:31001,127.0.0.1:31002"
    assert told_all["PELOTON_LOCAL_RANK"] == "0"  # two hosts of one name in two clusters are two


def test_a_task_is_told_where_its_peer_is() -> None:
    job = placed(f"defaultConfig {{ {PORT} workload {{ peer {{}} }} }}", "h1", "", "")
    assert peer_variables(member_of(job, 0)) == {
        "PELOTON_PEER_ADDRESS": "h1:31000",
        "PELOTON_PEER_HOST": "h1",
        "PELOTON_PEER_PORT": "31000",
    }
    assert job.reason(0) == ""
    assert job.reason(1) == ""


def test_an_instance_that_waits_for_its_peer_says_so() -> None:
    job = placed(f"defaultConfig {{ {PORT} workload {{ peer {{}} }} }}", "", "", "")
    assert job.reason(0) == ""
    text = "waits until instance 0, whose address it needs, has a host: it is INITIALIZED"
    assert job.reason(1) == text


names = st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True)
members = st.builds(
    lambda host, port: Member(host, host, port), st.one_of(st.just(""), names), st.integers(1, 65535)
)


@given(st.lists(members, min_size=1, max_size=40), st.sampled_from(Framework), st.data())
def test_members_agree_whatever_the_placement(
    found: list[Member], framework: Framework, data: st.DataObject
) -> None:
    meeting, size = Meeting(framework, tuple(found)), len(found)
    one, other = (data.draw(st.integers(0, size - 1)) for _ in range(2))
    first, second = meeting_variables(meeting, one), meeting_variables(meeting, other)
    assert first["PELOTON_MEMBERS"].split(",") == [str(member) for member in found]
    assert first["PELOTON_SIZE"] == second["PELOTON_SIZE"] == str(size)
    assert (first["PELOTON_RANK"], second["PELOTON_RANK"]) == (str(one), str(other))
    assert 0 <= int(first["PELOTON_LOCAL_RANK"]) < int(first["PELOTON_LOCAL_SIZE"]) <= size
    if one != other and found[one].node == found[other].node:
        assert first["PELOTON_LOCAL_RANK"] != second["PELOTON_LOCAL_RANK"]
    assert set(first) == set(second)


def command(value: str, *arguments: str, shell: bool = True, **variables: str) -> task_pb2.TaskConfig:
    config = task_pb2.TaskConfig()
    config.command.CopyFrom(mesos_pb2.CommandInfo(value=value, arguments=arguments, shell=shell))
    for name, content in variables.items():
        config.command.environment.variables.add(name=name, value=content)
    return config


def run(config: task_pb2.TaskConfig, sandbox: Path) -> str:
    """Run a command as an agent does."""
    given = config.command
    argv = ["/bin/sh", "-c", given.value] if given.shell else list(given.arguments)
    file = "/bin/sh" if given.shell else given.value
    variables = {each.name: each.value for each in given.environment.variables}
    environment = {"PATH": os.environ["PATH"], "MESOS_SANDBOX": str(sandbox), **variables}
    done = subprocess.run(argv, executable=file, env=environment, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_list_is_in_a_file_of_the_sandbox_and_the_command_runs_as_it_is(tmp_path: Path) -> None:
    config = command('printf "%s\\n" "$MASTER_ADDR" "$RANK"; cat "$PELOTON_MEMBERS_FILE"', RANK="mine")
    tell(config, told("TORCH", 1, *TWO_ON_A_HOST), Framework.TORCH)
    assert run(config, tmp_path).splitlines() == ["h1", "mine", "h1:31000", "h2:31001", "h1:31002"]
    assert (tmp_path / "peloton-members").read_text() == "h1:31000\nh2:31001\nh1:31002\n"


def test_a_program_without_shell_gets_its_arguments(tmp_path: Path) -> None:
    config = command("/bin/echo", "echo", "a  b", "$HOME", shell=False)
    tell(config, told("NONE", 0, *TWO_ON_A_HOST), Framework.NONE)
    assert run(config, tmp_path) == "a  b $HOME\n"
    assert (tmp_path / "peloton-members").read_text().count("\n") == 3


def test_mpi_gets_a_hostfile_with_a_line_for_each_member(tmp_path: Path) -> None:
    config = command(
        'cat "$OMPI_MCA_orte_default_hostfile"; echo "$HYDRA_HOST_FILE"', HYDRA_HOST_FILE="my-hosts"
    )
    tell(config, told("MPI", 0, *TWO_ON_A_HOST), Framework.MPI)
    assert run(config, tmp_path).splitlines() == ["h1", "h2", "h1", "my-hosts"]


def test_a_long_list_is_in_the_file_alone(tmp_path: Path) -> None:
    found = tuple(Member(f"host-{rank}.example.com", f"h{rank}", 31000) for rank in range(9000))
    variables = meeting_variables(Meeting(Framework.NONE, found), 8999)
    assert "PELOTON_MEMBERS" not in variables
    assert all(len(value) <= 100_000 for value in variables.values())
    config = command("env")
    tell(config, variables, Framework.NONE)
    assert "PELOTON_MEMBERS_PART" not in run(config, tmp_path)
    assert (tmp_path / "peloton-members").read_text().split() == [str(member) for member in found]
    few = found[: LISTED_BYTES // 40]
    assert "PELOTON_MEMBERS" in meeting_variables(Meeting(Framework.NONE, few), 0)


BY_DOCKER = mesos_pb2.ContainerInfo(type=mesos_pb2.ContainerInfo.DOCKER)
BY_MESOS = mesos_pb2.ContainerInfo(
    type=mesos_pb2.ContainerInfo.MESOS,
    mesos=mesos_pb2.ContainerInfo.MesosInfo(image=mesos_pb2.Image(type=mesos_pb2.Image.DOCKER)),
)


@pytest.mark.parametrize("container", [BY_DOCKER, BY_MESOS])
@pytest.mark.parametrize("value", ["", "serve"])
def test_an_image_keeps_its_entry_point_and_the_agent_is_asked_for_the_file(
    container: mesos_pb2.ContainerInfo, value: str
) -> None:
    config = command(value, "serve", "--all", shell=False)
    config.container.CopyFrom(container)
    before = list(config.command.arguments), config.command.value
    tell(config, told("NONE", 0, *TWO_ON_A_HOST), Framework.NONE)
    assert (list(config.command.arguments), config.command.value) == before
    assert config.command.environment.variables[0].name == "PELOTON_SIZE"
    labels = {label.key: label.value for label in config.labels}
    assert labels == {"peloton.members_file": "PELOTON_MEMBERS_FILE"}


def test_an_image_with_mpi_gets_a_hostfile_by_the_agent() -> None:
    config = command("serve", shell=False)
    config.container.CopyFrom(BY_DOCKER)
    tell(config, told("MPI", 0, *TWO_ON_A_HOST), Framework.MPI)
    names = next(label.value for label in config.labels if label.key == "peloton.hostfile").split(",")
    assert names[0] == "PELOTON_HOSTFILE"
    assert "OMPI_MCA_orte_default_hostfile" in names


def test_an_image_whose_command_is_for_a_shell_has_the_file_by_it(tmp_path: Path) -> None:
    config = command('cat "$PELOTON_MEMBERS_FILE"')
    config.container.CopyFrom(BY_DOCKER)
    tell(config, told("NONE", 1, *TWO_ON_A_HOST), Framework.NONE)
    assert run(config, tmp_path).split() == ["h1:31000", "h2:31001", "h1:31002"]
    assert not config.labels


IN_PLACE = (
    "instanceCount: 4 sla { minimumRunningInstances: 2 } "
    f"workload {{ elastic {{}} gang_policy: GANG_POLICY_RESTART_MEMBER framework: FRAMEWORK_%s }} "
    f"defaultConfig {{ {PORT} }}"
)


@pytest.mark.parametrize(
    ("framework", "own"),
    [
        ("NONE", {}),
        ("RAY", {"RAY_ADDRESS": "h0:31000"}),
        (
            "TORCH",
            {
                "PET_NNODES": "2:4",
                "PET_RDZV_BACKEND": "c10d",
                "PET_RDZV_ENDPOINT": "h0:31000",
                "PET_RDZV_ID": "j",
                "PET_RDZV_CONF": "is_host=false",
            },
        ),
    ],
)
def test_a_gang_that_grows_in_place_has_a_line_for_each_instance(framework: str, own: dict[str, str]) -> None:
    job = placed(IN_PLACE % framework, "h0", "h1", "", "h3")
    assert meeting_variables(meeting_of(job, 1), 3) == {
        "PELOTON_SIZE": "4",
        "PELOTON_RANK": "3",
        "PELOTON_LOCAL_SIZE": "1",
        "PELOTON_LOCAL_RANK": "0",
        "PELOTON_RANK0_ADDRESS": "h0:31000",
        "PELOTON_MEMBERS": "h0:31000,h1:31001,-,h3:31003",
        **own,
    }


def test_a_member_that_has_ended_is_not_among_those_that_grow_in_place() -> None:
    job = placed(IN_PLACE % "NONE", "h0", "h1")
    ended = replace(job.tasks[1], state=TaskState.KILLED)
    job.put(1, ended)
    assert [str(member) for member in meeting_of(job, 1).members] == ["h0:31000", "-", "-", "-"]
