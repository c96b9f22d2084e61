"""Required fields are found in any message; protobuf's own search ends the process for the last of these."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.api.v0.job import job_pb2
from peloton.private.resmgr.placing import placing_pb2
from peloton.required_fields import missing_fields


def test_nothing_is_missing() -> None:
    assert missing_fields(job_pb2.JobConfig()) == []
    assert missing_fields(mesos_pb2.TaskID(value="")) == []


def test_paths_name_lists_and_maps() -> None:
    config = job_pb2.JobConfig()
    config.instanceConfig[7].command.uris.add(executable=True)
    config.defaultConfig.command.uris.add(value="x")
    config.defaultConfig.command.uris.add()
    assert sorted(missing_fields(config)) == [
        "defaultConfig.command.uris[1].value",
        "instanceConfig[7].command.uris[0].value",
    ]


def test_a_message_with_a_map_of_numbers_is_searched() -> None:
    request = placing_pb2.GiveBackRequest()
    request.gangs.add()
    request.gangs.add(hosts={"scarce_resources": 1, "mismatch_constraints": 4})
    request.gangs.add().runs.add()
    assert missing_fields(request) == ["gangs[2].runs[0].value"]
