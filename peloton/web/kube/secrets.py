"""Secrets of pools: they are written for a user, and listed without their contents."""

from __future__ import annotations

from peloton.api.v0 import peloton_pb2
from peloton.calls.web import CREATE_SECRET, DELETE_SECRET, LIST_SECRETS, REPLACE_SECRET
from peloton.errors import AlreadyExists, InvalidArgument, NotFound, Refused
from peloton.private.jobmgr.secrets import secrets_pb2 as pb
from peloton.web.kube.core.kinds import SECRET
from peloton.web.kube.core.names import Pool
from peloton.web.kube.core.refusals import Cause, Refusal, invalid, not_found
from peloton.web.kube.core.secrets import GivenSecret, given_secret, secret_object
from peloton.web.kube.core.values import Object
from peloton.web.kube.reading import Reader

Done = tuple[Object, tuple[str, ...]]
"""The object, and warnings."""


async def create(reader: Reader, namespace: str, given: Object, dry: bool) -> Done:
    """Make a secret. Raises Refusal."""
    pool = await reader.pool(namespace)
    wanted = given_secret(given, namespace)
    if dry:
        return _shown(wanted, namespace), wanted.warnings
    request = pb.CreateSecretRequest(pool_id=_id(pool), info=wanted.info, contents=wanted.contents)
    try:
        answer = await reader.calls.call(CREATE_SECRET, request)
    except AlreadyExists:
        details = {"name": wanted.info.name, "group": "", "kind": SECRET.plural}
        text = f'secrets "{wanted.info.name}" already exists'
        raise Refusal(409, text, "AlreadyExists", details) from None
    except (InvalidArgument, Refused) as error:
        raise _refused(wanted.info.name, error) from None
    reader.calls.cluster.shared.forget()
    return secret_object(answer.info, namespace), wanted.warnings


async def one(reader: Reader, namespace: str, name: str) -> tuple[Pool, pb.SecretInfo]:
    """Return a secret as it is now. Raises Refusal."""
    pool = await reader.pool(namespace)
    answer = await reader.calls.call(LIST_SECRETS, pb.ListSecretsRequest(pool_id=_id(pool)))
    found = next((each for each in answer.secrets if each.name == name), None)
    if found is None:
        raise not_found(SECRET.plural, name)
    return pool, found


async def replace(reader: Reader, pool: Pool, held: pb.SecretInfo, given: Object, dry: bool) -> Done:
    """Bring a secret to another manifest. Raises Refusal."""
    wanted = given_secret(given, pool.namespace, held.keys, held.type)
    if wanted.info.name != held.name:
        raise invalid(SECRET.kind, held.name, [Cause("metadata.name", "a name is kept")])
    if dry:
        return _shown(wanted, pool.namespace), wanted.warnings
    request = pb.ReplaceSecretRequest(pool_id=_id(pool), info=wanted.info, contents=wanted.contents)
    try:
        answer = await reader.calls.call(REPLACE_SECRET, request)
    except NotFound:
        raise not_found(SECRET.plural, held.name) from None
    except (InvalidArgument, Refused) as error:
        raise _refused(held.name, error) from None
    reader.calls.cluster.shared.forget()
    return secret_object(answer.info, pool.namespace), wanted.warnings


async def delete(reader: Reader, pool: Pool, held: pb.SecretInfo) -> None:
    """Delete a secret. Raises Refusal."""
    request = pb.DeleteSecretRequest(pool_id=_id(pool), name=held.name)
    try:
        await reader.calls.call(DELETE_SECRET, request)
    except NotFound:
        raise not_found(SECRET.plural, held.name) from None
    except Refused as error:
        raise _refused(held.name, error) from None
    reader.calls.cluster.shared.forget()


def _shown(wanted: GivenSecret, namespace: str) -> Object:
    info = pb.SecretInfo()
    info.CopyFrom(wanted.info)
    info.keys.extend(sorted(wanted.contents))
    return secret_object(info, namespace)


def _id(pool: Pool) -> peloton_pb2.ResourcePoolID:
    return peloton_pb2.ResourcePoolID(value=pool.id)


def _refused(name: str, error: InvalidArgument | Refused) -> Refusal:
    if isinstance(error, Refused):
        return Refusal(403, str(error))
    field = error.field.replace("contents", "data", 1).replace("info.", "metadata.", 1)
    return invalid(SECRET.kind, name, [Cause(field, error.what, "FieldValueInvalid")])
