"""`peloton_client`, by which programs for the published client find this one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2_grpc
from peloton.client import PelotonClient

NAMES = Path(__file__).resolve().parents[3] / "clients" / "python-names"


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(NAMES)
    finders = list(sys.meta_path)
    yield
    sys.meta_path[:] = finders
    for name in [each for each in sys.modules if each.split(".")[0] == "peloton_client"]:
        del sys.modules[name]


def test_the_client_and_its_messages() -> None:
    assert importlib.import_module("peloton_client.client").PelotonClient is PelotonClient
    below = "peloton_client.pbgen.peloton.api"
    assert importlib.import_module(f"{below}.v0.job.job_pb2") is job_pb2
    assert importlib.import_module(f"{below}.job.job_pb2") is job_pb2  # before there was a v0
    stubs = f"{below}.v1alpha.job.stateless.svc.stateless_svc_pb2_grpc"
    assert importlib.import_module(stubs) is stateless_svc_pb2_grpc
    assert importlib.import_module("peloton_client.pbgen.mesos.v1.mesos_pb2").TaskID is not None
    assert job_pb2.__spec__ is not None and job_pb2.__spec__.name == "peloton.api.v0.job.job_pb2"


def test_a_name_that_is_none() -> None:
    importlib.import_module("peloton_client.pbgen")
    for name in ("peloton.api.v0.nothing", "peloton.nothing.x_pb2", "other"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"peloton_client.pbgen.{name}")
