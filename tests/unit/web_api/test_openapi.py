"""The OpenAPI document: it is valid, and what protobuf makes of messages is valid by its schemas."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from peloton.web.api.methods import public_methods, public_services
from peloton.web.api.openapi import document
from peloton.web.api.schemas import Schemas
from tests.cluster.served import services

DEPTH = 6
"""How deep messages are filled."""
_F = FieldDescriptor
SAMPLES: dict[int, Any] = {
    _F.CPPTYPE_BOOL: True,
    _F.CPPTYPE_DOUBLE: float("inf"),
    _F.CPPTYPE_FLOAT: 0.5,
    _F.CPPTYPE_INT32: -(2**31),
    _F.CPPTYPE_INT64: -(2**63),
    _F.CPPTYPE_UINT32: 2**32 - 1,
    _F.CPPTYPE_UINT64: 2**64 - 1,
}


def fill(message: Any, depth: int = DEPTH) -> Any:
    """Sets every field, of a oneof the last."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and depth == 0 and not field.is_required:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            fill_map(getattr(message, field.name), field.message_type, depth)
        elif field.message_type is not None:
            held = getattr(message, field.name)
            held = held.add() if field.is_repeated else held
            held.SetInParent()
            fill_message(held, depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).append(sample(field))
        else:
            setattr(message, field.name, sample(field))
    return message


def fill_message(message: Any, depth: int) -> None:
    """Fills a message; the time of a Timestamp is bounded."""
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        message.FromJsonString("2026-11-22T20:00:00.5Z")
    else:
        fill(message, depth)


def fill_map(held: Any, entry: Descriptor, depth: int) -> None:
    key, value = sample(entry.fields_by_name["key"]), entry.fields_by_name["value"]
    if value.message_type is not None:
        fill_message(held[key], depth - 1)
    else:
        held[key] = sample(value)


def sample(field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    if field.type == _F.TYPE_BYTES:
        return b"\x00\xff?"
    return SAMPLES.get(field.cpp_type, "text")


def validator(schema: dict[str, Any], components: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({"components": {"schemas": components}, **schema})


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(document()).validate()


def test_every_public_method_is_there_and_no_other() -> None:
    public = [each for each in services() if each.full_name.startswith("peloton.api.")]
    assert {str(each.full_name) for each in public} == {str(each.full_name) for each in public_services()}
    expected = {f"/api/{each.full_name}/{method.name}" for each in public for method in each.methods}
    assert set(document()["paths"]) == expected
    assert {(service, method) for service, method in public_methods()} == {
        tuple(path.removeprefix("/api/").split("/")) for path in expected
    }


@pytest.mark.parametrize("side", ["request", "response"])
def test_what_protobuf_makes_of_full_messages_is_valid(side: str) -> None:
    components = document()["components"]["schemas"]
    refused = 0
    for method in public_methods().values():
        message = fill(getattr(method, side)())
        schema = {"$ref": f"#/components/schemas/{message.DESCRIPTOR.full_name}"}
        checker = validator(schema, components)
        found = MessageToDict(message)
        errors = [error.message for error in checker.iter_errors(found)]
        assert not errors, (method.path, errors[:3])
        refused += not checker.is_valid({**found, "unknownField": 1})
    assert refused == len(public_methods())


def test_the_shapes_of_fields() -> None:
    components = document()["components"]["schemas"]
    job = components["peloton.api.v0.job.JobConfig"]["properties"]
    assert job["type"] == {"$ref": "#/components/schemas/peloton.api.v0.job.JobType"}
    assert components["peloton.api.v0.job.JobType"] == {
        "type": "string",
        "enum": ["BATCH", "SERVICE", "DAEMON"],
    }
    assert job["instanceConfig"] == {
        "type": "object",
        "additionalProperties": {"$ref": "#/components/schemas/peloton.api.v0.task.TaskConfig"},
        "propertyNames": {"pattern": "^-?[0-9]+$"},
    }
    assert components["google.protobuf.Timestamp"]["format"] == "date-time"
    constraint = components["peloton.api.v0.task.Constraint"]["properties"]
    assert "Constraint" in str(constraint["andConstraint"])  # recursion through AndConstraint
    runtime = components["peloton.api.v0.job.RuntimeInfo"]["properties"]
    assert runtime["workflowVersion"]["type"] == "string"


def peculiar() -> Any:
    """The class of a message with what the interface lacks: a oneof, well-known types, itself."""
    file = FileDescriptorProto(name="peculiar.proto", package="peculiar", syntax="proto3")
    pool = DescriptorPool()
    for module in (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)  # type: ignore[no-untyped-call]
        file.dependency.append(str(module.DESCRIPTOR.name))
    message = file.message_type.add(name="Peculiar")
    message.oneof_decl.add(name="choice")
    kinds = (
        "Duration",
        "Empty",
        "FieldMask",
        "Struct",
        "Timestamp",
        "Int64Value",
        "BoolValue",
        "StringValue",
    )
    for number, name in enumerate(kinds, 1):
        message.field.add(
            name=f"a_{name.lower()}",
            number=number,
            type=FieldDescriptorProto.TYPE_MESSAGE,
            type_name=f".google.protobuf.{name}",
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
    for number, name in enumerate(("this", "that", "other"), 20):
        message.field.add(
            name=name,
            number=number,
            type=FieldDescriptorProto.TYPE_STRING,
            oneof_index=0,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
    message.field.add(
        name="itself",
        number=30,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".peculiar.Peculiar",
        label=FieldDescriptorProto.LABEL_REPEATED,
    )
    pool.Add(file)  # type: ignore[no-untyped-call]
    return GetMessageClass(pool.FindMessageTypeByName("peculiar.Peculiar"))  # type: ignore[no-untyped-call]


def test_oneofs_well_known_types_and_recursion() -> None:
    kind = peculiar()
    schemas = Schemas()
    checker = validator(schemas.of_message(kind.DESCRIPTOR), schemas.components())
    message = kind(that="x")
    message.a_duration.FromJsonString("1.5s")
    message.a_timestamp.FromJsonString("2026-11-22T20:00:00Z")
    message.a_fieldmask.paths.append("a.b")
    message.a_struct["key"] = [1, None]
    message.a_empty.SetInParent()
    message.a_int64value.value = 2**40
    message.a_boolvalue.value = True
    message.a_stringvalue.value = ""
    message.itself.add().itself.add(other="y")
    found = MessageToDict(message)
    assert found["aInt64value"] == str(2**40)
    assert not list(checker.iter_errors(found)), found
    assert not checker.is_valid({"this": "x", "that": "y"})
    assert not checker.is_valid({"aDuration": "soon"})
    assert not checker.is_valid({"itself": [{"itself": {}}]})
