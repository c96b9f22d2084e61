from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.cli.output import yaml_text
from peloton.client import yamltree
from peloton.client.matching import enum_numbers, field_names
from peloton.client.spec import parse_spec, read_spec
from peloton.client.yamltree import SpecError

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def job(text: str) -> job_pb2.JobConfig:
    return parse_spec(job_pb2.JobConfig, text, "job.yaml")


@pytest.mark.parametrize("key", ["instancecount", "instanceCount", "instance_count", "INSTANCE_COUNT"])
def test_keys_are_matched_without_case_and_underscores(key: str) -> None:
    assert job(f"{key}: 7").instanceCount == 7


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("name: 123", lambda one: one.name == "123"),
        ("name: on", lambda one: one.name == "on"),
        ("name: ~", lambda one: one.name == ""),
        ("labels: [{key: a, value: 080}]", lambda one: one.labels[0].value == "080"),
        ("instancecount: 1_000", lambda one: one.instanceCount == 1000),
        ("instancecount: 2.0", lambda one: one.instanceCount == 2),
        ("instancecount: 0x10", lambda one: one.instanceCount == 16),
        (
            "defaultconfig: {resource: {memlimitmb: 1e3}}",
            lambda one: one.defaultConfig.resource.memLimitMb == 1000,
        ),
        ("type: service", lambda one: one.type == job_pb2.SERVICE),
        ("type: 1", lambda one: one.type == job_pb2.SERVICE),
        ("placementstrategy: spread_job", lambda one: one.placementStrategy == 2),
        ("placementstrategy: PLACEMENT_STRATEGY_PACK_HOST", lambda one: one.placementStrategy == 1),
        ("sla: {preemptible: yes}", lambda one: one.sla.preemptible),
        ("sla: {}", lambda one: one.HasField("sla")),
        ("instanceconfig: {3: {controller: true}}", lambda one: one.instanceConfig[3].controller),
        ("ldapgroups: [a, b]", lambda one: list(one.ldapGroups) == ["a", "b"]),
        (
            "instanceconfig: {0: &a {name: x, controller: true}, 1: {<<: *a, name: y}}",
            lambda one: (one.instanceConfig[1].name, one.instanceConfig[1].controller) == ("y", True),
        ),
    ],
)
def test_valid_specs(text: str, read: Callable[[job_pb2.JobConfig], bool]) -> None:
    assert read(job(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sla: {maxRunningTime: 5m}", lambda one: one.sla.maxRunningTime == 300),
        ("sla: {maxRunningTime: 1h30m}", lambda one: one.sla.maxRunningTime == 5400),
        ("sla: {maxRunningTime: '90'}", lambda one: one.sla.maxRunningTime == 90),
        (
            "defaultConfig: {resource: {cpuLimit: 500m}}",
            lambda one: one.defaultConfig.resource.cpuLimit == 0.5,
        ),
        (
            "defaultConfig: {resource: {memLimitMb: 32Mi}}",
            lambda one: one.defaultConfig.resource.memLimitMb == 32,
        ),
        (
            "defaultConfig: {resource: {diskLimitMb: 1.5GB}}",
            lambda one: one.defaultConfig.resource.diskLimitMb == 1536,
        ),
        (
            "defaultConfig: {killGracePeriodSeconds: 2m}",
            lambda one: one.defaultConfig.killGracePeriodSeconds == 120,
        ),
        ("defaultConfig: {volume: {sizeMB: 10Gi}}", lambda one: one.defaultConfig.volume.sizeMB == 10240),
    ],
)
def test_values_may_have_units(text: str, value: Callable[[job_pb2.JobConfig], bool]) -> None:
    assert value(job(text))


def test_the_amounts_of_a_pool_have_the_unit_of_their_kind() -> None:
    text = "resources: [{limit: 2Gi, kind: memory}, {kind: cpu, reservation: 1500m, limit: 4}]"
    memory, cpu = parse_spec(respool_pb2.ResourcePoolConfig, text).resources
    assert (memory.limit, cpu.reservation, cpu.limit) == (2048, 1.5, 4)
    with pytest.raises(SpecError, match="'2Gi' is not an amount in cores"):
        parse_spec(respool_pb2.ResourcePoolConfig, "resources: [{kind: cpu, limit: 2Gi}]")


def test_the_name_of_an_enum_is_suggested_by_its_own_words() -> None:
    text = "defaultSpec: {constraint: {type: LABEL_CONSTRAINT}}"
    with pytest.raises(SpecError, match="; did you mean CONSTRAINT_TYPE_LABEL"):
        parse_spec(stateless_pb2.JobSpec, text)


def test_bytes_are_base64_by_tag_and_text_otherwise() -> None:
    def data(text: str) -> bytes:
        config = f"defaultconfig: {{executor: {{executor_id: {{value: x}}, data: {text}}}}}"
        return job(config).defaultConfig.executor.data

    assert data("!!binary aGVsbG8=") == b"hello"
    assert data("aGVsbG8=") == b"aGVsbG8="
    assert data("'grüße'") == "grüße".encode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instanceconut: 3", "1: instanceconut: unknown key; did you mean instanceCount?"),
        ("defaultconfig:\n  resource:\n    cpu: 1", "3: defaultconfig.resource.cpu: unknown key"),
        ("name: x\nsla: {zzz: 1}", "2: sla.zzz: unknown key; known here: priority, preemptible"),
        ("defaultconfig: {resource: {cpulimit: -1}}", "cpulimit: -1 is not a number of 0 or more"),
        ("instancecount: -1", "instancecount: -1 is not a whole number of 0 or more"),
        (
            "instancecount: 4294967296",
            "instancecount: 4294967296 is not a whole number of 4294967295 or less",
        ),
        ("instancecount: ten", "instancecount: 'ten' is not a whole number"),
        ("instancecount: '10'", "instancecount: '10' is not a whole number"),
        ("instancecount: 0.5", "instancecount: 0.5 is not a whole number"),
        ("instancecount: 1:30", "instancecount: 1:30 is not a whole number"),
        ("instancecount: true", "instancecount: true is not a whole number"),
        ("instancecount: [1]", "instancecount: a list is not a whole number"),
        (
            "defaultconfig: {resource: {cpulimit: .nan}}",
            "cpulimit: .nan is not an amount in cores, such as 0.5 or 500m",
        ),
        ("defaultconfig: {resource: {cpulimit: .inf}}", "cpulimit: .inf is not an amount in cores"),
        ("defaultconfig: {resource: {cpulimit: 1.5.2}}", "cpulimit: '1.5.2' is not an amount in cores"),
        ("sla: {maxrunningtime: 5x}", "'5x' is not a whole number of seconds, such as 300, 5m or 1h30m"),
        ("sla: {maxrunningtime: 1500ms}", "'1500ms' is not a whole number of seconds"),
        (
            "defaultconfig: {resource: {memlimitmb: 512M}}",
            "'512M' is not an amount in MB, such as 512, 512Mi",
        ),
        ("defaultconfig: {resource: {fdlimit: 5m}}", "'5m' is not a whole number"),
        ("name: x\n\tinstancecount: 3", "job.yaml:2: not YAML: a tab: YAML is indented by spaces"),
        ("sla:\n  \tpriority: 3", "job.yaml:2: not YAML: a tab: YAML is indented by spaces"),
        ("defaultconfig: 3", "defaultconfig: 3 is not a mapping"),
        ("sla: {preemptible: 1}", "sla.preemptible: 1 is not true or false"),
        ("type: BTACH", "type: 'BTACH' is not one of BATCH, SERVICE, DAEMON; did you mean BATCH?"),
        ("type: 7", "type: 7 is not one of BATCH"),
        ("type: [BATCH]", "type: a list is not one of BATCH"),
        ("name: {a: 1}", "name: a mapping is not text"),
        ("name: !!python/object/apply:os.system [ls]", "name: a list is not text"),
        ("name: !danger x", "name: a value of tag !danger is not text"),
        ("labels: a=b", "labels: 'a=b' is not a list"),
        ("labels: [a]", "labels[0]: 'a' is not a mapping"),
        ("ldapgroups: [~]", "ldapgroups[0]: nothing is not text"),
        ("instanceconfig: {a: {}}", "instanceconfig.a: 'a' is not a whole number"),
        ("instanceconfig: {1: {}, 0x1: {}}", "instanceconfig.0x1: is given twice"),
        (
            "instancecount: 1\ninstance_count: 2",
            "2: instance_count: is given twice: instancecount is on line 1",
        ),
        ("- a", "job.yaml:1: a list is not a mapping"),
        ("", "job.yaml: holds nothing"),
        ("a: [", "not YAML: while parsing a flow node: did not find expected node content"),
        ("a: 1\n---\nb: 2", "not YAML: expected a single document in the stream"),
        ("a: *b", "not YAML: found undefined alias"),
        ("name: \x07", "not YAML"),
        ("[" * 200, "nested deeper than 64 levels"),
        (
            "defaultconfig: {constraint: &a {andconstraint: {constraints: [*a]}}}",
            "defaultconfig: nested deeper than 64 levels: does an alias hold itself?",
        ),
        (
            "defaultconfig: {command: {environment: {variables: [{value: x}]}}}",
            "defaultConfig.command.environment.variables[0].name: is missing",
        ),
    ],
)
def test_invalid_specs_name_the_path(text: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        job(text)
    assert message in str(refused.value)
    assert str(refused.value).startswith("job.yaml:")


def test_recursive_merge_keys_terminate() -> None:
    with pytest.raises(SpecError, match="unknown key"):
        job("&a {<<: [*a, *a], nope: 1}")


def test_many_aliases_of_aliases_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peloton.client.spec.MAX_NODES", 10_000)
    levels = ["c0: &c0 {type: 1}"]
    for level in range(1, 8):
        inner = ",".join([f"*c{level - 1}"] * 10)
        levels.append(f"c{level}: &c{level} {{andconstraint: {{constraints: [{inner}]}}}}")
    text = "<<: {" + ", ".join(levels) + "}\ndefaultconfig: {constraint: *c7}"
    with pytest.raises(SpecError, match="more than 10000 values"):
        job(text)


def test_bad_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(name: str) -> str:
        with pytest.raises(SpecError) as refused:
            read_spec(job_pb2.JobConfig, str(tmp_path / name))
        return str(refused.value).removeprefix(f"{tmp_path}/")

    (tmp_path / "latin").write_bytes(b"name: gr\xfc\xdfe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_text("name: x\n" * 100)
    assert refusal("none") == "none: cannot be read: No such file or directory"
    assert refusal("folder") == "folder: cannot be read: Is a directory"
    assert refusal("latin") == "latin: not UTF-8 text (byte 8)"
    monkeypatch.setattr(yamltree, "MAX_BYTES", 500)
    assert "larger than" in refusal("large")


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfname: x\n")
    assert read_spec(job_pb2.JobConfig, str(file)).name == "x"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*_job.yaml")), ids=lambda file: file.name)
def test_examples_of_jobs(file: Path) -> None:
    config = read_spec(job_pb2.JobConfig, str(file))
    assert config.name and (config.type == job_pb2.DAEMON) == (config.instanceCount == 0)
    assert config.defaultConfig.command.value and not config.HasField("respoolID")


def test_example_of_a_service() -> None:
    spec = read_spec(stateless_pb2.JobSpec, str(EXAMPLES / "web_service.yaml"))
    assert (spec.name, spec.instance_count, spec.sla.maximum_unavailable_instances) == ("web", 3, 1)
    assert spec.default_spec.containers[0].entrypoint.value and not spec.HasField("respool_id")


def test_example_of_a_pool() -> None:
    config = read_spec(respool_pb2.ResourcePoolConfig, str(EXAMPLES / "default_respool.yaml"))
    limits = {one.kind: one.limit for one in config.resources}
    assert limits == {"cpu": 12, "memory": 6144, "disk": 60000, "gpu": 0}
    assert all(one.reservation <= one.limit for one in config.resources)
    assert all(one.type == respool_pb2.ELASTIC and one.share == 1 for one in config.resources)


def messages_within(root: Descriptor, seen: dict[str, Descriptor]) -> dict[str, Descriptor]:
    if root.full_name not in seen:
        seen[root.full_name] = root
        for field in root.fields:
            if field.message_type is not None:
                messages_within(field.message_type, seen)
    return seen


def test_no_two_names_are_the_same_once_normalized() -> None:
    found: dict[str, Descriptor] = {}
    for root in (job_pb2.JobConfig, respool_pb2.ResourcePoolConfig, stateless_pb2.JobSpec):
        messages_within(root.DESCRIPTOR, found)
    for message in found.values():
        assert len(field_names(message)) == len(message.fields), message.full_name
        for field in message.fields:
            if field.enum_type is not None:
                numbers = enum_numbers(field.enum_type)
                assert set(numbers.values()) == {value.number for value in field.enum_type.values}
                for value in field.enum_type.values:
                    assert numbers[value.name.replace("_", "").lower()] == value.number


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(allow_nan=False, allow_infinity=False, width=32),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
}


def scalars(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return st.binary(max_size=12) if field.type == FieldDescriptor.TYPE_BYTES else TEXT
    return INTEGERS[field.cpp_type]


def fill(draw: st.DrawFn, message: Any, depth: int) -> None:
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        message.seconds = draw(st.integers(-62135596800, 253402300799))
        message.nanos = draw(st.integers(0, 999_999_999))
        return
    message.SetInParent()
    taken: set[str] = set()
    for field in message.DESCRIPTOR.fields:
        group = field.containing_oneof
        if group is not None and group.name in taken:
            continue
        required = field.is_required
        if not required and (depth > 5 or draw(st.integers(0, 2)) > 0):
            continue
        if group is not None:
            taken.add(group.name)
        fill_field(draw, message, field, depth + 1)


def fill_field(draw: st.DrawFn, message: Any, field: FieldDescriptor, depth: int) -> None:
    target = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for at in draw(st.lists(scalars(key), max_size=2)):
            if value.message_type is not None:
                fill(draw, target[at], depth)
            else:
                target[at] = draw(scalars(value))
    elif field.is_repeated:
        for _ in range(draw(st.integers(0, 2))):
            if field.message_type is not None:
                fill(draw, target.add(), depth)
            else:
                target.append(draw(scalars(field)))
    elif field.message_type is not None:
        fill(draw, target, depth)
    else:
        setattr(message, field.name, draw(scalars(field)))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    kind: type[Message] = draw(
        st.sampled_from(
            [job_pb2.JobConfig, job_pb2.QuerySpec, respool_pb2.ResourcePoolConfig, pod_pb2.PodSpec]
        )
    )
    message = kind()
    fill(draw, message, 0)
    return message


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages())
def test_a_message_shown_as_yaml_is_read_back_the_same(message: Message) -> None:
    text = yaml_text(message) or "{}"
    kind = type(message)
    assert parse_spec(kind, text, negative=True) == message


@settings(max_examples=150, deadline=None)
@given(st.text("nametyplbs: -[]{}&*!|>'\"#%@`,?<~.019\n\t\x00é", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        job(text)
    except SpecError as refused:
        assert str(refused).startswith("job.yaml")


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["name", "sla", "labels", "type", "defaultconfig", "resource", "key", "cpulimit"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_tree_is_read_or_refused(tree: Any) -> None:
    try:
        config = job(yaml.safe_dump(tree))
    except SpecError:
        return
    assert not config.defaultConfig.resource.cpuLimit < 0
    assert math.isfinite(config.defaultConfig.resource.cpuLimit)
