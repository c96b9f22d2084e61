"""New and changed pools: what becomes of everybody's entitlement is shown before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.calls.web import CREATE_POOL, GET_POOL, PLAN_POOL, UPDATE_POOL
from peloton.errors import (
    AlreadyExists,
    Conflict,
    InvalidArgument,
    NotFound,
    PelotonError,
    Refused,
    Unauthenticated,
)
from peloton.private.resmgr.monitoring import monitoring_pb2
from peloton.rpc.errors import InvalidRequest
from peloton.web.cluster import Calls
from peloton.web.formats import KINDS as SHOWN
from peloton.web.permissions import Method, refusals
from peloton.web.requests import calls, done, field, render
from peloton.web.views.pools.drafts import TYPES, Effect, PoolFields, effects, of_kinds

CREATE, EDIT = "create", "edit"
METHODS: dict[str, Method] = {CREATE: CREATE_POOL, EDIT: UPDATE_POOL}
WRONG = (InvalidArgument, InvalidRequest, AlreadyExists, Refused)
"""Errors that say what is wrong with a config."""
STALE = (
    "the pool was changed by others since this page was made; look at what it is like now, and decide again"
)


@dataclass(frozen=True, slots=True)
class Target:
    """The pool that is changed, or below which one is created."""

    info: respool_pb2.ResourcePoolInfo
    action: str

    @property
    def id(self) -> str:
        """The id of the pool."""
        return self.info.id.value

    @property
    def path(self) -> str:
        """The path of the pool."""
        return self.info.path.value

    @property
    def creates(self) -> bool:
        """Whether a pool is created below it."""
        return self.action == CREATE

    @property
    def title(self) -> str:
        """What is done, as a title."""
        return f"New pool below {self.path}" if self.creates else f"Change {self.path}"

    @property
    def held(self) -> respool_pb2.ResourcePoolConfig:
        """The config that a new one keeps what the form does not have of."""
        if not self.creates:
            return self.info.config
        return respool_pb2.ResourcePoolConfig(parent=self.info.id)

    @property
    def version(self) -> str:
        """The version that a change is based on."""
        return str(self.info.config.changeLog.version)


async def show(request: Request) -> Response:
    """Answer with the form."""
    target = await _target(request)
    given = PoolFields.below(target.info.config) if target.creates else PoolFields.held(target.info.config)
    return await _form(request, target, given)


async def submit(request: Request) -> Response:
    """Show what the config of a form would do, or do what was shown."""
    target, step = await _target(request), field(request, "step")
    given = PoolFields.of(lambda name: field(request, name, ""))
    if step == "edit":
        return await _form(request, target, given)
    try:
        config = given.config(target.held)
        if step == "apply":
            return done(request, f"/pools/{await _apply(request, target, config)}")
        planned = await _planned(calls(request), target, config)
    except Conflict:
        return await _form(request, target, given, f"nothing was done: {STALE}", 409)
    except WRONG as error:
        return await _form(request, target, given, of_kinds(str(error)), 400)
    return await _confirm(request, target, given, *planned)


async def _target(request: Request) -> Target:
    """Read the pool anew. Raises NotFound for another action, and Refused for a change of the root."""
    action, pool_id = request.path_params["action"], request.path_params["id"]
    if action not in METHODS:
        raise NotFound(f"a pool has no action {action!r}")
    wire = respool_pb2.GetRequest(id=peloton_pb2.ResourcePoolID(value=pool_id))
    answer = await calls(request).call(GET_POOL, wire)
    if not answer.HasField("poolinfo"):
        raise NotFound(f"no resource pool has the id {pool_id!r}")
    target = Target(answer.poolinfo, action)
    if action == EDIT and target.path == "/":
        raise Refused("the root is as large as the cluster, and is not changed")
    return target


async def _apply(request: Request, target: Target, config: respool_pb2.ResourcePoolConfig) -> str:
    """Create or change the pool; return its id. Raises Conflict where others changed it meanwhile."""
    if target.creates:
        created = await calls(request).call(CREATE_POOL, respool_pb2.CreateRequest(config=config))
        return created.result.value
    if field(request, "version") != target.version:
        raise Conflict(STALE)
    await calls(request).call(UPDATE_POOL, respool_pb2.UpdateRequest(id=target.info.id, config=config))
    return target.id


async def _planned(
    client: Calls, target: Target, config: respool_pb2.ResourcePoolConfig
) -> tuple[Sequence[Effect], str]:
    """Return what a config would change, or why that is not known. Raises what is wrong with it."""
    pool_id = "" if target.creates else target.id
    request = monitoring_pb2.PlanPoolRequest(pool_id=pool_id, config=config)
    try:
        return effects(await client.call(PLAN_POOL, request), pool_id), ""
    except (*WRONG, Unauthenticated):
        raise
    except PelotonError as error:
        return (), str(error)


async def _variables(request: Request, target: Target, given: PoolFields) -> dict[str, Any]:
    denied = await refusals(calls(request), METHODS, target.path)
    return {
        "target": target,
        "given": given,
        "types": TYPES,
        "shown_kinds": SHOWN,
        "denied": denied.get(target.action, ""),
    }


async def _form(
    request: Request, target: Target, given: PoolFields, problem: str = "", status: int = 200
) -> Response:
    """Answer with the form, and with what is wrong with what was sent."""
    variables = await _variables(request, target, given)
    return render(request, "pool_form.html", {**variables, "problem": problem}, status)


async def _confirm(
    request: Request, target: Target, given: PoolFields, found: Sequence[Effect], unknown: str
) -> Response:
    """Answer with what becomes of everybody's entitlement."""
    variables = await _variables(request, target, given)
    about = {
        "effects": found,
        "unknown": unknown,
        "losing": sorted({each.path for each in found if each.over}),
        "base_version": field(request, "version", target.version),
    }
    return render(request, "pool_plan.html", {**variables, **about})


ROUTES = (
    Route("/pools/{id}/do/{action}", show, methods=["GET"]),
    Route("/pools/{id}/do/{action}", submit, methods=["POST"]),
)
