"""Requests that change objects: what each of them asks, and its answer. `writing` carries it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from secrets import token_hex

from starlette.responses import JSONResponse, Response

from peloton.errors import PelotonError
from peloton.web.kube import applying, secrets
from peloton.web.kube.answers import changed
from peloton.web.kube.call import Call
from peloton.web.kube.core.cluster_objects import QUOTA_NAME, quota_object
from peloton.web.kube.core.kinds import POD, RESOURCE_QUOTA, SECRET
from peloton.web.kube.core.managers import Managers
from peloton.web.kube.core.manifests import stripped
from peloton.web.kube.core.objects import Held, scale_of
from peloton.web.kube.core.patches import APPLY, check_type, patched
from peloton.web.kube.core.preconditions import (
    check_uid,
    check_version,
    dry_by,
    object_of,
    part_of,
)
from peloton.web.kube.core.refusals import Refusal, not_found, refusal_of, success
from peloton.web.kube.core.secrets import secret_object
from peloton.web.kube.core.values import Object
from peloton.web.kube.requests import body_of, check_origin, content_type, has_body, not_served
from peloton.web.kube.writing import Writer

Change = Callable[[Object], Object]
"""Returns what becomes of an object."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_TRIES = 3
"""How often a patch is laid over the newest object when others change it meanwhile."""


class Changer:
    """Answers requests that change objects."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def answer(self, call: Call) -> Response:
        """Do what a request asks. Raises Refusal."""
        method, wanted = call.request.method, call.wanted
        check_origin(call.request)
        if wanted.subresource == "scale" and method in ("PUT", "PATCH"):
            return await self._scale(call)
        verb = _VERBS[method]
        if verb not in wanted.kind.verbs or wanted.subresource or bool(wanted.name) == (verb == "create"):
            raise not_served(method, wanted.kind)
        return await {
            "create": self._create, "update": self._update, "patch": self._patch, "delete": self._delete
        }[verb](call)  # fmt: skip

    async def _create(self, call: Call) -> Response:
        given = object_of(await body_of(call.request))
        _name_by_prefix(given)
        if call.wanted.kind is SECRET:
            found, warnings = await secrets.create(call.reader, call.wanted.namespace, given, call.dry)
            return changed(found if call.dry else call.versioned(found), warnings, 201)
        return await self._created(call, given)

    async def _created(self, call: Call, given: Object, managers: Managers = ()) -> Response:
        wanted = call.wanted
        job, manifest, warnings = await self._writer.create(
            call.reader, wanted.kind, wanted.namespace, given, call.dry, managers
        )
        found = manifest if job is None else call.versioned(call.reader.shown(job))
        return changed(found, warnings, 201)

    async def _update(self, call: Call) -> Response:
        given = object_of(await body_of(call.request))
        return await self._replaced(call, lambda current: given)

    async def _patch(self, call: Call) -> Response:
        kind = content_type(call.request)
        if kind != APPLY:
            check_type(kind)
        patch = await body_of(call.request)
        if kind == APPLY:
            return await self._apply(call, applying.given(call.request, patch, call.wanted))
        for _ in range(_TRIES - 1):
            try:
                return await self._replaced(call, lambda current: patched(current, patch, kind))
            except PelotonError as error:
                if refusal_of(error).code != 409:
                    raise
        return await self._replaced(call, lambda current: patched(current, patch, kind))

    async def _replaced(self, call: Call, change: Change) -> Response:
        """Bring a job, a pool or a secret to what a change makes of its object."""
        if call.wanted.kind is RESOURCE_QUOTA:
            return await self._resized(call, change)
        if call.wanted.kind is SECRET:
            return await self._rewritten(call, change)
        job = await _job(call)
        current = call.versioned(call.reader.shown(job))
        given = change(current)
        return await self._written(call, job, given, applying.noted(call.request, job, current, given))

    async def _written(self, call: Call, job: Held, given: Object, managers: Managers) -> Response:
        """Bring a job to another manifest, said by these."""
        current = call.versioned(call.reader.shown(job))
        _check_version(call, given, current)
        found, manifest, warnings = await self._writer.replace(call.reader, job, given, call.dry, managers)
        if found is None:
            shown = _tried(call.reader.shown(replace(job, manifest=manifest)), manifest)
            return changed(_as_version(shown, current), warnings)
        return changed(call.versioned(call.reader.shown(found)), warnings)

    async def _apply(self, call: Call, given: Object) -> Response:
        """Make an object as it is applied, or lay that over the one that is there."""
        if call.wanted.kind in (RESOURCE_QUOTA, SECRET):
            return await self._apply_unowned(call, given)
        try:
            job = await _job(call)
        except Refusal as refusal:
            if refusal.code != 404:
                raise
            return await self._created(call, given, applying.first(call.request, given))
        whole, managers = applying.over(call.request, job, call.reader.shown(job), given)
        return await self._written(call, job, whole, managers)

    async def _apply_unowned(self, call: Call, given: Object) -> Response:
        """Apply an object of whose fields no owners are kept."""
        try:
            return await self._replaced(call, lambda current: applying.laid_over(current, given))
        except Refusal as refusal:
            if refusal.code != 404 or call.wanted.kind is RESOURCE_QUOTA:
                raise
        found, warnings = await secrets.create(call.reader, call.wanted.namespace, given, call.dry)
        return changed(found, warnings, 201)

    async def _resized(self, call: Call, change: Change) -> Response:
        pool = await call.reader.pool_now(call.wanted.namespace)
        if call.wanted.name != QUOTA_NAME:
            raise not_found(call.wanted.kind.plural, call.wanted.name)
        current = call.versioned(quota_object(pool))
        given = change(current)
        _check_version(call, given, current)
        pool, warnings = await self._writer.resize(call.reader, pool, given, call.dry)
        shown = quota_object(pool)
        return changed(_as_version(shown, current) if call.dry else call.versioned(shown), warnings)

    async def _rewritten(self, call: Call, change: Change) -> Response:
        """Bring a secret to what a change makes of its object, which has no contents."""
        pool, held = await secrets.one(call.reader, call.wanted.namespace, call.wanted.name)
        current = call.versioned(secret_object(held, call.wanted.namespace))
        given = change(current)
        _check_version(call, given, current)
        found, warnings = await secrets.replace(call.reader, pool, held, given, call.dry)
        return changed(found if call.dry else call.versioned(found), warnings)

    async def _scale(self, call: Call) -> Response:
        """Change how many pods a service has."""
        body, kind = object_of(await body_of(call.request)), content_type(call.request)
        job = await _job(call)
        current = call.versioned(call.reader.shown(job))
        version = current["metadata"]["resourceVersion"]
        if call.request.method == "PATCH":
            body = patched(scale_of(job, version), body, kind)
        _check_version(call, body, current)
        given = stripped(current)
        given.setdefault("spec", {})["replicas"] = part_of(body, "spec").get("replicas", 0)
        managers = applying.noted(call.request, job, current, given)
        found, _, warnings = await self._writer.replace(call.reader, job, given, call.dry, managers)
        return changed(scale_of(found or job, version), warnings)

    async def _delete(self, call: Call) -> Response:
        request, reader, wanted = call.request, call.reader, call.wanted
        options = object_of(await body_of(request)) if has_body(request) else {}
        policy = options.get("propagationPolicy") or request.query_params.get("propagationPolicy")
        if policy == "Orphan":
            raise Refusal(422, "propagationPolicy: pods of Peloton are not left behind: use Background")
        dry = call.dry or dry_by(options)
        if wanted.kind is POD:
            pod = call.versioned(await reader.pod(wanted.namespace, wanted.name))
            check_uid(options, pod)
            if not dry:
                await self._writer.restart(reader, *await reader.instance(wanted.namespace, wanted.name))
            return JSONResponse(pod)
        if wanted.kind is SECRET:
            pool, held = await secrets.one(reader, wanted.namespace, wanted.name)
            uid = held.id
            check_uid(options, call.versioned(secret_object(held, wanted.namespace)))
            if not dry:
                await secrets.delete(reader, pool, held)
        else:
            job = await _job(call)
            uid = job.job_id
            check_uid(options, call.versioned(reader.shown(job)))
            if not dry:
                await self._writer.delete(reader, job)
        details = {"name": wanted.name, "group": wanted.kind.group, "kind": wanted.kind.plural, "uid": uid}
        return JSONResponse(success(details))


def _name_by_prefix(given: Object) -> None:
    """Make a name where only its beginning is given."""
    metadata = given.get("metadata")
    if isinstance(metadata, dict) and metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = f"{metadata.pop('generateName')}{token_hex(3)}"
    elif isinstance(metadata, dict):
        metadata.pop("generateName", None)


async def _job(call: Call) -> Held:
    return await call.reader.job(call.wanted.kind, call.wanted.namespace, call.wanted.name)


def _check_version(call: Call, given: Object, current: Object) -> None:
    check_version(given, current, call.wanted.kind.plural, call.wanted.name)


def _as_version(shown: Object, current: Object) -> Object:
    """Return an object that was only tried, as of the present version."""
    shown["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
    return shown


def _tried(shown: Object, manifest: Object) -> Object:
    """Return an object as it would be with a manifest: what is said there of its state counts."""
    spec = manifest.get("spec")
    if isinstance(spec, dict) and "suspend" in spec:
        shown["spec"]["suspend"] = spec["suspend"]
    return shown
