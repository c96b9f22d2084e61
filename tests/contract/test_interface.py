"""The .proto files hold the whole wire interface, and say of each service and method what it is for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "proto"
CHECKER = ROOT.parent / "shared" / "api" / "interface.py"

# Field numbers in descriptor.proto, of which a location's path is made.
FILE_SERVICE = descriptor_pb2.FileDescriptorProto.SERVICE_FIELD_NUMBER
SERVICE_METHOD = descriptor_pb2.ServiceDescriptorProto.METHOD_FIELD_NUMBER


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled descriptor set of all of proto/, with source information."""
    out = tmp_path_factory.mktemp("descriptors") / "descriptors.fds"
    names = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    includes = (PROTO, files("grpc_tools") / "_proto")
    command = [sys.executable, "-m", "grpc_tools.protoc", *(f"-I{path}" for path in includes)]
    command += ["--include_imports", "--include_source_info", f"--descriptor_set_out={out}", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.skipif(not CHECKER.exists(), reason=f"the interface's tables are missing: {CHECKER}")
def test_interface_matches_the_tables(descriptors: Path) -> None:
    command = [sys.executable, str(CHECKER), "check", str(descriptors)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "0 differences\n"


def services_and_methods(
    file: descriptor_pb2.FileDescriptorProto,
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Each service and rpc method of a file: its path in the source information, and its name."""
    for index, service in enumerate(file.service):
        path = (FILE_SERVICE, index)
        yield path, f"{file.name}: {service.name}"
        for number, method in enumerate(service.method):
            yield (*path, SERVICE_METHOD, number), f"{file.name}: {service.name}.{method.name}"


def test_each_service_and_method_has_a_comment(descriptors: Path) -> None:
    parsed = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
    found, bare = 0, []
    for file in parsed.file:
        if not file.name.startswith("peloton/"):
            continue
        commented = {
            tuple(place.path) for place in file.source_code_info.location if place.leading_comments.strip()
        }
        for path, name in services_and_methods(file):
            found += 1
            if path not in commented:
                bare.append(name)
    assert found > 0, "no service found under proto/peloton"
    assert not bare, "without a comment: " + ", ".join(bare)
