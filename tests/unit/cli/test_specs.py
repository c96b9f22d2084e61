"""`job validate`, `job schema`, and what a dry run says would be refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.client.spec import MOST_ERRORS
from peloton.private.plan import plan_pb2
from peloton.specs import check, message_type

from .conftest import Run
from .fakes import FakeDaemons

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*_*.yaml"))
JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
BAD = """\
name: x
instanceCoun: 3
instanceCount: -1
defaultConfig:
  resource: {cpuLimit: lots}
  command: {value: 'true'}
labels: {key: team}
"""
BROKEN_RULE = """\
name: x
instance_count: 2
DefaultConfig: {command: {value: 'true'}, resource: {cpuLimit: 1}}
instanceConfig:
  1:
    ports:
      - {name: a, envName: A}
      - {name: b}
"""


@pytest.mark.parametrize("file", [each for each in EXAMPLES if "minicluster" not in each.name], ids=str)
def test_examples_are_valid_and_match_their_schema(run: Run, file: Path) -> None:
    kind = "service" if "service" in file.name else "job"
    kind = "respool" if "respool" in file.name else kind
    outcome = run("job", "validate", str(file))
    assert outcome == (0, f"{file}: a valid {kind} spec\n", "")
    schema = json.loads(run("job", "schema", kind).out)
    assert not list(faults(yaml.safe_load(file.read_text()), schema, schema["$defs"]))


def test_all_faults_are_listed_with_their_lines(run: Run, tmp_path: Path) -> None:
    bad, broken = tmp_path / "bad.yaml", tmp_path / "broken.yaml"
    bad.write_text(BAD)
    broken.write_text(BROKEN_RULE)
    outcome = run("job", "validate", str(bad), str(broken))
    assert (outcome.code, outcome.out) == (1, "")
    said = outcome.err.splitlines()
    assert said[0] == f"{bad}:2: instanceCoun: unknown key; did you mean instanceCount?"
    assert [line.partition(" ")[0] for line in said] == [f"{bad}:{at}:" for at in (2, 3, 5, 7)] + [
        f"{broken}:8:"
    ]
    assert "instanceConfig[1].ports[1].envName" in said[-1]
    answer = json.loads(run("job", "validate", str(broken), "-j").out)
    assert (answer[0]["valid"], answer[0]["errors"][0]["line"]) == (False, 8)


def test_a_field_that_is_missing_has_the_line_of_what_holds_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: x\ninstanceCount: 1\ndefaultConfig:\n  resource: {cpuLimit: 1}\n")
    outcome = run("job", "validate", str(file))
    assert outcome.code == 1 and outcome.err.startswith(f"{file}:4: defaultConfig.command")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\n", "1: instanceCount: is missing: give a number from 1 to 100000"),
        ("instanceCount: 0\n", "1: instanceCount: 0 is not a number from 1 to 100000"),
        ("instanceCount: 1\n", "1: defaultConfig.command: is missing: give a command; every instance"),
        (
            "instanceCount: 1\ndefaultConfig:\n  command: {shell: true}\n",
            "3: defaultConfig.command.value: is missing: give a command line",
        ),
    ],
)
def test_what_is_missing_is_told_from_what_is_wrong(run: Run, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    assert run("job", "validate", str(file)).err.startswith(f"{file}:{said}")


@pytest.mark.parametrize(
    ("arguments", "text", "code", "said"),
    [
        ((), "a: [", 1, "not YAML"),
        ((), "", 1, "holds nothing"),
        ((), "- a", 1, "is not a mapping"),
        (
            ("--kind", "service"),
            "name: x\ninstanceCount: 1\ndefaultConfig: {}",
            1,
            "defaultConfig: unknown key",
        ),
        (("--kind", "cron"), "name: x", 2, "'job', 'service', 'respool'"),
    ],
)
def test_other_faults(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], text: str, code: int, said: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    outcome = run("job", "validate", str(file), *arguments)
    assert outcome.code == code and said in outcome.err


def test_wrong_calls(run: Run) -> None:
    assert run("job", "validate").code == 2
    assert "cannot be read" in run("job", "validate", "/none.yaml").err
    assert run("job", "schema", "cron").code == 2


@pytest.mark.parametrize(
    ("command", "example", "hint"),
    [
        (("job", "create", "/p"), "web_service", "a service, which `peloton job stateless create` takes"),
        (("job", "stateless", "create", "/p"), "gang_job", "a job, which `peloton job create` takes"),
        (("respool", "create", "/p"), "gang_job", "a job, which `peloton job create` takes"),
        (("job", "create", "/p"), "default_respool", "a respool, which `peloton respool create` takes"),
        (("update", "create", JOB), "web_service", "which `peloton job stateless create` takes"),
    ],
)
def test_a_spec_of_another_kind_is_told(run: Run, command: tuple[str, ...], example: str, hint: str) -> None:
    file = next(each for each in EXAMPLES if each.stem == example)
    more = {"update": ("1", "/p"), "job": ("1",) if "stateless" in command else ()}.get(command[0], ())
    outcome = run(*command, str(file), *more)
    assert outcome.code == 1 and "unknown key" in outcome.err and hint in outcome.err


def test_faults_are_bounded() -> None:
    text = "\n".join(f"wrong{number}: 1" for number in range(MOST_ERRORS * 3))
    assert len(check(text, "many.yaml").errors) == MOST_ERRORS


def faults(value: Any, schema: dict[str, Any], definitions: dict[str, Any], path: str = "") -> Any:
    """What of JSON Schema the generated schemas use."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in schema:
        found = [list(faults(value, each, definitions, path)) for each in schema["anyOf"]]
        if all(found):
            yield min(found, key=len)
        return
    kinds = schema.get("type", [])
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    name = names.get(type(value), "null")
    allowed = [kinds] if isinstance(kinds, str) else kinds
    if allowed and name not in allowed and not (name == "integer" and "number" in allowed):
        yield f"{path}: {name} is none of {allowed}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value} is none of {schema['enum']}"
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        yield f"{path}: {value} is too small"
    for index, item in enumerate(value if name in allowed and name == "array" else ()):
        yield from faults(item, schema["items"], definitions, f"{path}[{index}]")
    for key, item in value.items() if isinstance(value, dict) else ():
        inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
        if inner is False or inner is None:
            yield f"{path}.{key}: unknown"
        else:
            yield from faults(item, inner, definitions, f"{path}.{key}")


@pytest.mark.parametrize("kind", ["job", "service", "respool"])
def test_schemas_hold_each_field_and_find_faults(run: Run, kind: str) -> None:
    schema = json.loads(run("job", "schema", kind).out)
    descriptor: Any = message_type(kind).DESCRIPTOR
    assert {field.name for field in descriptor.fields} <= set(schema["properties"])
    for fault in ({"nmae": "x"}, {"name": ["x"]}):
        assert list(faults(fault, schema, schema["$defs"])), fault


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: hello\ninstance_count: 3\ndefaultconfig: {command: {value: 'true'}, resource: {cpulimit: 1}}\n"
    )
    return str(file)


def test_a_dry_run_says_all_that_would_be_refused(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD)
    daemons.answers["LookupResourcePoolID"] = respool_pb2.LookupResponse()
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=job_pb2.JobInfo(id=peloton_pb2.JobID(value=JOB)))
    outcome = run("job", "create", "/none", str(bad), "--dry-run", "-i", JOB)
    assert (outcome.code, outcome.err) == (1, "")
    lines = outcome.out.splitlines()
    assert lines[0] == "Nothing is created. It would be refused:"
    assert lines[1] == f"  {bad}:2: instanceCoun: unknown key; did you mean instanceCount?"
    assert lines[-2:] == [
        "  resource pool '/none': there is no pool of this path",
        f"  --jobID: a job {JOB} exists",
    ]
    assert not daemons.requests("PlanJob") and not daemons.requests("Create")


def test_a_dry_run_says_what_the_job_manager_refuses(run: Run, daemons: FakeDaemons, spec: str) -> None:
    daemons.answers["LookupResourcePoolID"] = respool_pb2.LookupResponse(
        id=peloton_pb2.ResourcePoolID(value="pool")
    )
    daemons.answers["PlanJob"] = (grpc.StatusCode.INVALID_ARGUMENT, "respoolID: 'pool' is not a leaf")
    outcome = run("job", "create", "/p", spec, "--dry-run", "-i", "nope", "-j")
    assert outcome.code == 1
    assert json.loads(outcome.out) == {
        "refused": [
            "--jobID: 'nope' is not a UUID of 36 characters",
            "respoolID: 'pool' is not a leaf (INVALID_ARGUMENT)",
        ]
    }
    daemons.answers["Get"] = (grpc.StatusCode.NOT_FOUND, "no job")
    daemons.answers["PlanJob"] = plan_pb2.PlanJobResponse(instances=3)
    assert run("job", "create", "/p", spec, "--dry-run", "-i", JOB).code == 0
    daemons.answers["PlanJob"] = (grpc.StatusCode.UNAVAILABLE, "no resmgr leads")
    assert run("job", "create", "/p", spec, "--dry-run").code == 3


def test_a_spec_that_will_hardly_work_is_valid_and_warned_of(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "instanceCount: 1\nlabels:\n  - {key: a, value: x}\n  - {key: a, value: y}\n"
        "defaultConfig: {command: {value: 'true'}, resource: {cpuLimit: 1}}\n"
    )
    outcome = run("job", "validate", str(file))
    assert outcome.code == 0
    assert outcome.err.splitlines() == [
        f"{file}:1: name: warning: an empty name: nobody finds the job by it",
        f"{file}:3: labels[0].key: warning: 'a' is given more than once: each counts, and none replaces "
        "another",
    ]
    (answer,) = json.loads(run("job", "validate", str(file), "-j").out)
    assert answer["valid"] and [each["line"] for each in answer["warnings"]] == [1, 3]


def test_a_spec_that_can_never_run_is_refused_with_its_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: x\ninstanceCount: 1\ndefaultConfig:\n  command: {value: 'true'}\n"
        "  resource: {cpuLimit: 1}\n  volume:\n    sizeMB: 1\n    containerPath: ../../etc\n"
    )
    outcome = run("job", "validate", str(file))
    assert (outcome.code, outcome.err) == (
        1,
        f"{file}:8: defaultConfig.volume.containerPath: '../../etc' is not a path without `..`, below the "
        "sandbox\n",
    )
