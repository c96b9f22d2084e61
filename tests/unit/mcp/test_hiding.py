"""No value of a variable and no secret can be read from what is shown."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless.stateless_pb2 import JobSpec
from peloton.api.v1alpha.job.stateless.svc.stateless_svc_pb2 import GetReplaceJobDiffResponse
from peloton.api.v1alpha.pod import pod_pb2
from peloton.mcp.hiding import hidden, hide_changes, shown

VALUE = "hunter2"


def test_a_hidden_value_tells_only_whether_it_is_the_same() -> None:
    assert hidden(VALUE) == hidden(VALUE) != hidden(VALUE + " ")
    assert VALUE not in hidden(VALUE)
    assert hidden("\udcff")  # from bytes that are no UTF-8


def test_variables_of_all_instances_are_hidden_and_the_config_stays_as_it_was() -> None:
    command = mesos_pb2.CommandInfo(value="run")
    command.environment.variables.add(name="DB", value=VALUE)
    command.environment.variables.add(name="EMPTY", value="")
    task = task_pb2.TaskConfig(command=command)
    config = job_pb2.JobConfig(defaultConfig=task, instanceConfig={3: task})
    seen = shown(config)
    assert VALUE not in str(seen) and VALUE in str(config)
    variables = seen.instanceConfig[3].command.environment.variables
    assert [(each.name, each.value) for each in variables] == [("DB", hidden(VALUE)), ("EMPTY", "")]
    assert seen.defaultConfig.command.value == "run"


def test_variables_of_containers_are_hidden() -> None:
    container = pod_pb2.ContainerSpec(environment=[pod_pb2.Environment(name="DB", value=VALUE)])
    spec = JobSpec(default_spec=pod_pb2.PodSpec(containers=[container]))
    assert VALUE not in str(shown(spec))


def test_changes_of_variables_are_hidden_and_others_are_told() -> None:
    answer = GetReplaceJobDiffResponse()
    fields = answer.changes.add().fields
    fields.add(field="environment", key="DB", before=VALUE, after="", text=f"environment: DB {VALUE} removed")
    fields.add(field="labels", key="tier", before="a", after="b", text="labels: tier a → b")
    hide_changes(answer)
    assert VALUE not in str(answer)
    assert [each.text for each in fields] == [f"environment: DB {hidden(VALUE)} → none", "labels: tier a → b"]
