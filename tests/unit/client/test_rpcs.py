"""RPCs as typed values, and the types of a client's attributes."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from peloton.api.v0.job import job_pb2
from peloton.client import typed
from peloton.client.rpcs import RPCS, name_of, request_of
from peloton.client.services import SERVICES
from peloton.private.access import access_pb2


def _modules() -> dict[str, str]:
    """Return the modules that `peloton.client.typed` imports for type checkers, by their names there."""
    assert typed.__file__
    found = {}
    for node in ast.walk(ast.parse(Path(typed.__file__).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("peloton."):
            found.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
    return found


@pytest.mark.parametrize(("kind", "suffix"), [(typed.Services, "Stub"), (typed.AsyncServices, "AsyncStub")])
def test_types_are_those_of_the_stubs_that_are_loaded(kind: type, suffix: str) -> None:
    modules = _modules()
    assert kind.__annotations__.keys() == SERVICES.keys()
    for name, annotation in kind.__annotations__.items():
        module, _, stub = annotation.partition(".")
        assert stub.endswith(suffix)
        found = getattr(import_module(modules[module]), stub.removesuffix(suffix) + "Stub")
        assert found is SERVICES[name].load()


def test_rpcs_have_names_and_requests() -> None:
    name = name_of(RPCS.job_svc.Get)
    assert (name.service, name.method) == ("job_svc", "Get")
    assert request_of(RPCS.job_svc.Get) == job_pb2.GetRequest()
    assert isinstance(request_of(RPCS.resmgr_access_svc.CheckMethods), access_pb2.CheckMethodsRequest)
    with pytest.raises(AssertionError, match="not an RPC"):
        name_of("job_svc")


def test_naming_an_rpc_imports_no_stub() -> None:
    script = (
        "import sys\nfrom peloton.client.rpcs import RPCS\nRPCS.job_svc.Get\n"
        "print([name for name in sys.modules if name.endswith('_pb2_grpc') or name == 'grpc'])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"
