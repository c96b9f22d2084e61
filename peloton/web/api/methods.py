"""The public methods, from the descriptors of `peloton.api`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

import peloton.api

_ROLES = {"host": "hostmgr", "respool": "resmgr"}
"""Roles by the part of the package's name behind the version. jobmgr serves all other services."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method, with the classes of its messages and the role whose leader serves it."""

    service: str
    name: str
    role: str
    request: type[Any]
    response: type[Any]
    streams: bool
    """Whether it answers with a stream."""

    @property
    def path(self) -> str:
        """Return the path of the method in gRPC."""
        return f"/{self.service}/{self.name}"


@cache
def public_services() -> tuple[ServiceDescriptor, ...]:
    """Return all services of `peloton.api`, by name."""
    found = {
        str(service.full_name): service
        for module in _modules()
        for service in module.DESCRIPTOR.services_by_name.values()
    }
    return tuple(found[name] for name in sorted(found))


@cache
def public_methods() -> Mapping[tuple[str, str], Method]:
    """Return all public methods by the full name of their service and by name."""
    methods = (_method(service, each) for service in public_services() for each in service.methods)
    return {(method.service, method.name): method for method in methods}


def _modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(peloton.api.__path__, "peloton.api."):
        if found.name.endswith("_pb2"):
            yield import_module(found.name)


def _method(service: ServiceDescriptor, method: MethodDescriptor) -> Method:
    if method.client_streaming:
        raise NotImplementedError(f"{method.full_name}: no service of ours takes a stream")
    subject = str(service.full_name).split(".")[3]
    return Method(
        str(service.full_name),
        str(method.name),
        _ROLES.get(subject, "jobmgr"),
        GetMessageClass(method.input_type),
        GetMessageClass(method.output_type),
        bool(method.server_streaming),
    )
