"""Requests that change a job: each shows what it will do first, and is carried out when it is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.calls.web import GET_JOB_V1ALPHA, GET_REPLACE_JOB_DIFF, REPLACE_JOB, UPDATE_JOB
from peloton.client.spec import parse_spec
from peloton.client.yamltree import SpecError
from peloton.errors import Conflict, InvalidArgument, PelotonError, Refused, StaleVersion
from peloton.model.plural import plural
from peloton.present.plain import yaml_text
from peloton.web.cluster import Calls
from peloton.web.pages import Page, Subject
from peloton.web.permissions import refusals
from peloton.web.requests import calls, done, field, render
from peloton.web.views.jobs.actions import (
    SIMPLE,
    Options,
    Preview,
    action_of,
    methods_of,
    preview,
    simple_call,
)
from peloton.web.views.jobs.job import JobHead
from peloton.web.views.jobs.pages import Read, pools_of, read_job, read_spec
from peloton.web.views.jobs.versions import Comparison, chosen, compare, config_version, spec_yaml
from peloton.web.views.jobs.workflow import ranges
from peloton.wire.v1alpha.workflow import update_spec

CONFIRMATION = "job_action.html"
SOURCE = "spec"
"""The name of the edited text in errors."""
RETRY = "look at what it is like now, and decide again"


@dataclass(frozen=True, slots=True)
class Diff:
    """What an update would do to the instances, as ranges, or as numbers of instances."""

    added: str
    removed: str
    updated: str
    unchanged: str
    changes: Sequence[tuple[str, str]] = ()
    """Instances that are updated, and a change of their config for which they are."""

    @property
    def rows(self) -> Sequence[tuple[str, str]]:
        """The kinds with their instances."""
        return (
            ("updated: a new run each", self.updated),
            ("added", self.added),
            ("removed", self.removed),
            ("unchanged: they run on", self.unchanged),
        )


async def load_action(subject: Subject) -> Mapping[str, Any]:
    """Return what an action will do that needs no spec."""
    options = Options.of(lambda name: subject.query.get(name, ""))
    read = await read_job(subject.calls, subject.path["job_id"])
    told = await _told(subject.calls, subject.path["action"], read, options.batch_size)
    return _confirmation(read, told, options)


async def show(request: Request) -> Response:
    """Answer with what an action will do that takes a spec."""
    key = request.path_params["action"]
    read = await _fresh(request)
    if (await _preview(request, read)).action.refused:
        return await _confirm(request, read, Options())
    if key == "update":
        text, _ = await _editable(calls(request), read)
        return await _edit(request, read, text)
    return await _show_rollback(request, read)


async def carry_out(request: Request) -> Response:
    """Carry out an action that was confirmed; or show it again with what changed meanwhile."""
    key, read = request.path_params["action"], await _fresh(request)
    action = action_of(key, read.head, read.workflow)
    try:
        options = Options.of(_typed(request))
        if action.refused:
            raise Refused(f"{action.label.rstrip('…')}: {action.refused}")
        if key == "update":
            return await _update(request, read, options)
        if key == "rollback":
            return await _rollback(request, read, options)
        version = field(request, "version")
        await simple_call(key, read.head, version, options)(calls(request))
    except (Conflict, Refused) as error:
        return await _confirm(request, await _fresh(request), options, _conflict(error), 409)
    except InvalidArgument as error:
        return await _confirm(request, read, Options(), str(error), 400)
    return done(request, read.head.url)


def _typed(request: Request) -> Callable[[str], str]:
    """Return what gives a field of the form, empty where it is not in it."""
    return lambda name: field(request, name, "")


def _conflict(error: PelotonError) -> str:
    """Return what a user reads where others were first, or where it was refused."""
    if isinstance(error, StaleVersion):
        return f"nothing was done: the job was changed by others since this page was made; {RETRY}"
    return f"nothing was done: {error}; {RETRY}"


async def _fresh(request: Request) -> Read:
    return await read_job(calls(request), request.path_params["job_id"], 0.0)


async def _preview(request: Request, read: Read, batch_size: int = 0) -> Preview:
    return await _told(calls(request), request.path_params["action"], read, batch_size)


async def _told(client: Calls, key: str, read: Read, batch_size: int) -> Preview:
    """Return what an action will do. Raises NotFound where there is none of the name."""
    denied = await refusals(client, methods_of(read.head), read.head.pool)
    action = action_of(key, read.head, read.workflow, denied)
    pools = await pools_of(client)
    pool = next((each for each in pools if each.id.value == read.head.pool_id), None)
    return preview(action, read.head, read.workflow, pool, read.job.config, batch_size)


async def _confirm(
    request: Request, read: Read, options: Options, problem: str = "", status: int = 200
) -> Response:
    if problem and request.path_params["action"] in ("update", "rollback"):
        return await _again(request, read, problem, status)
    shown = await _preview(request, read, options.batch_size)
    return render(request, CONFIRMATION, _confirmation(read, shown, options, problem), status)


def _confirmation(read: Read, told: Preview, options: Options, problem: str = "") -> Mapping[str, Any]:
    """Return the variables of the page that confirms an action."""
    return {"job": read.head, "preview": told, "options": options, "problem": problem}


async def _again(request: Request, read: Read, problem: str, status: int) -> Response:
    if request.path_params["action"] == "rollback":
        return await _show_rollback(request, read, problem, status)
    return await _edit(request, read, field(request, "spec", ""), problem, status)


# Updates.


async def _editable(client: Calls, read: Read) -> tuple[str, str]:
    """Return the present spec as YAML to edit, and the name of its type."""
    if read.head.batch:
        config = job_pb2.JobConfig()
        config.CopyFrom(read.job.config)
        config.ClearField("changeLog")
        return yaml_text(config) + "\n", "JobConfig"
    return spec_yaml(await read_spec(client, read.head.id, read.head.entity_version)), "JobSpec"


async def _edit(request: Request, read: Read, text: str, problem: str = "", status: int = 200) -> Response:
    """Answer with the form to edit the spec."""
    variables = {
        "job": read.head,
        "preview": await _preview(request, read),
        "text": text,
        "options": Options.typed(_typed(request)),
        "problem": problem,
    }
    return render(request, "job_edit.html", variables, status)


async def _update(request: Request, read: Read, options: Options) -> Response:
    """Show what an update to the edited spec would do, or begin it."""
    text, client = field(request, "spec").replace("\r\n", "\n"), calls(request)
    step = field(request, "step", "preview")
    if step == "edit":
        return await _edit(request, read, text)
    try:
        if read.head.batch:
            return await _update_batch(request, read, text, step)
        spec = parse_spec(stateless_pb2.JobSpec, text, SOURCE)
        version = field(request, "version") if step == "apply" else read.head.entity_version
        if step == "apply":
            return _begun(request, read, await _replace(client, read.head.id, spec, version, options))
        return await _show_update(request, read, text, options, await _diff(client, read, spec, version))
    except (SpecError, InvalidArgument) as error:
        return await _edit(request, read, text, str(error), 400)


async def _update_batch(request: Request, read: Read, text: str, step: str) -> Response:
    """Add instances to a batch job."""
    config = parse_spec(job_pb2.JobConfig, text, SOURCE)
    held = read.head.instances
    if config.instanceCount < held:
        expected = f"at least {held}: instances may be added to a batch job, and none removed"
        raise InvalidArgument("instanceCount", config.instanceCount, expected)
    if step == "apply":
        if field(request, "version") != read.head.entity_version:
            # The call for batch jobs takes no version to compare.
            raise StaleVersion
        wire = job_pb2.UpdateRequest(id=v0_peloton.JobID(value=read.head.id), config=config)
        try:
            answer = await calls(request).call(UPDATE_JOB, wire)
        except Refused as error:
            return await _edit(request, read, text, str(error), 400)
        return _begun(request, read, answer.warnings)
    diff = _growth(read.head, config.instanceCount)
    return await _show_update(request, read, text, Options(), diff)


def _growth(job: JobHead, wanted: int) -> Diff:
    """Return what an update of a batch job adds: numbers of released instances may be used again."""
    more = wanted - job.instances
    if job.released:
        return Diff(plural(more, "instance") if more else "", "", "", plural(job.instances, "instance"))
    return Diff(f"{job.instances}-{wanted - 1}" if more else "", "", "", f"0-{job.instances - 1}")


async def _show_update(
    request: Request, read: Read, text: str, options: Options, diff: Diff, problem: str = ""
) -> Response:
    before, _ = await _editable(calls(request), read)
    variables = {
        "job": read.head,
        "preview": await _preview(request, read),
        "text": text,
        "options": options,
        "diff": diff,
        "compared": compare(before, text),
        "problem": problem,
        "action": "update",
        "target": 0,
    }
    return render(request, "job_update.html", variables)


async def _diff(client: Calls, read: Read, spec: stateless_pb2.JobSpec, version: str) -> Diff:
    """Ask what a spec would change."""
    request = pb.GetReplaceJobDiffRequest(job_id=peloton_pb2.JobID(value=read.head.id), spec=spec)
    request.version.value = version
    answer = await client.call(GET_REPLACE_JOB_DIFF, request)
    return Diff(
        ranges(answer.instances_added),
        ranges(answer.instances_removed),
        ranges(answer.instances_updated),
        ranges(answer.instances_unchanged),
        [(ranges(each.instances), field.text) for each in answer.changes for field in each.fields],
    )


async def _replace(
    client: Calls, job_id: str, spec: stateless_pb2.JobSpec, version: str, options: Options
) -> Sequence[str]:
    """Begin an update; the job's secrets stay. Return the warnings about the spec."""
    job = peloton_pb2.JobID(value=job_id)
    held = await client.call(GET_JOB_V1ALPHA, pb.GetJobRequest(job_id=job, summary_only=True))
    request = pb.ReplaceJobRequest(job_id=job, spec=spec, update_spec=update_spec(options.workflow))
    request.version.value = version
    request.secrets.extend(held.secrets)
    return (await client.call(REPLACE_JOB, request)).warnings


def _begun(request: Request, read: Read, warnings: Sequence[str]) -> Response:
    """Answer an update that was begun: go to the job, or show the warnings about its spec first."""
    to_job = done(request, read.head.url)
    if not warnings:
        return to_job
    return render(request, "job_updated.html", {"job": read.head, "warnings": warnings})


# Rolling back.


async def _show_rollback(request: Request, read: Read, problem: str = "", status: int = 200) -> Response:
    """Answer with what going back to an earlier version would do."""
    newest = config_version(read.head.entity_version)
    given = request.query_params.get("to") or field(request, "to", "")
    target = chosen(given, max(newest - 1, 1), newest)
    client = calls(request)
    spec = await read_spec(client, read.head.id, f"{target}-1-1")
    diff, compared = await _rollback_effect(client, read, spec)
    variables: dict[str, Any] = {
        "job": read.head,
        "preview": await _preview(request, read),
        "text": "",
        "options": Options.typed(_typed(request)),
        "diff": diff,
        "compared": compared,
        "problem": problem,
        "action": "rollback",
        "target": target,
    }
    return render(request, "job_update.html", variables, status)


async def _rollback_effect(client: Calls, read: Read, spec: stateless_pb2.JobSpec) -> tuple[Diff, Comparison]:
    diff = await _diff(client, read, _bare(spec), read.head.entity_version)
    before, _ = await _editable(client, read)
    return diff, compare(before, spec_yaml(spec))


async def _rollback(request: Request, read: Read, options: Options) -> Response:
    target = chosen(field(request, "to"), 0, config_version(read.head.entity_version))
    spec = await read_spec(calls(request), read.head.id, f"{target}-1-1")
    version = field(request, "version")
    return _begun(request, read, await _replace(calls(request), read.head.id, _bare(spec), version, options))


def _bare(spec: stateless_pb2.JobSpec) -> stateless_pb2.JobSpec:
    """Return a spec without its revision."""
    bare = stateless_pb2.JobSpec()
    bare.CopyFrom(spec)
    bare.ClearField("revision")
    return bare


class _Simple(StringConvertor):
    """The part of an address that names an action which needs no spec."""

    regex = "|".join(SIMPLE)


register_url_convertor("simple_action", _Simple())
PAGES = (
    Page("/jobs/{job_id}/do/{action:simple_action}", CONFIRMATION, load_action, ("now", "effect"), "Jobs"),
)
ROUTES = (
    Route("/jobs/{job_id}/do/{action}", show, methods=["GET"]),
    Route("/jobs/{job_id}/do/{action}", carry_out, methods=["POST"]),
)
