"""Every RPC of every server, from the descriptors, called with every kind of credentials."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from peloton.config.auth import OidcSettings
from peloton.identity.methods import ACCESS, for_daemons_only, scoped, split
from peloton.identity.principal import Kind, Principal
from tests.unit.identity.served import (
    DAEMON,
    ROLES,
    TOKEN,
    Metadata,
    Served,
    as_user,
    basic_file,
    every_method,
    private,
    serving,
    settings,
)

OK = grpc.StatusCode.OK
UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED
FORGED = (("peloton-epoch", "jobmgr:999999"),)
ISSUER, AUDIENCE = "https://login.example.com", "peloton"
KEY, OTHER = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
CURVE = ec.generate_private_key(ec.SECP256R1())


def jwks() -> str:
    keys = [
        {**RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "one", "use": "sig"},
        {**ECAlgorithm.to_jwk(CURVE.public_key(), as_dict=True), "kid": "two"},
    ]
    return json.dumps({"keys": keys})


def token(key: Any = KEY, algorithm: str = "RS256", kid: str = "one", **claims: Any) -> Metadata:
    now = int(time.time())
    content = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ann",
        "exp": now + 600,
        "groups": ["platform"],
        **claims,
    }
    content = {name: value for name, value in content.items() if value is not None}
    return bearer(jwt.encode(content, key, algorithm, headers={"kid": kid}))


def bearer(text: str) -> Metadata:
    return (("authorization", f"Bearer {text}"),)


def test_the_table_has_every_service() -> None:
    methods = every_method()
    assert len(methods) > 200
    for prefix in ("peloton.api.v0.", "peloton.api.v1alpha.", "peloton.private.", "peloton.api.job."):
        assert any(method.startswith(f"/{prefix}") for method in methods), prefix


async def refused(served: Served, metadata: Metadata, code: grpc.StatusCode) -> None:
    """Nothing is let in, beyond what each user may ask about itself."""
    codes = await served.call_all(metadata)
    about_itself = {path for path in codes if split(path)[0] == ACCESS} if code is DENIED else set()
    assert {path for path, each in codes.items() if each is not code} == about_itself
    assert set(served.calls) == about_itself


BASIC_REFUSED: dict[str, tuple[Metadata, grpc.StatusCode]] = {
    "nobody": ((), UNAUTHENTICATED),
    "wrong password": (as_user("ann", "bob1"), UNAUTHENTICATED),
    "empty password": (as_user("ann", ""), UNAUTHENTICATED),
    "no name": (as_user("", "ann1"), UNAUTHENTICATED),
    "unknown user": (as_user("zoe"), UNAUTHENTICATED),
    "a hash for a password": (as_user("ann", "$scrypt$ln=4,r=8,p=1$AAAA$AAAA"), UNAUTHENTICATED),
    "two names": ((*as_user("eve"), *as_user("ann")), UNAUTHENTICATED),
    "wrong daemon token": ((("peloton-token", TOKEN[::-1]), *DAEMON[1:]), UNAUTHENTICATED),
    "a token that begins right": ((("peloton-token", TOKEN[:-1]), *as_user("ann")), UNAUTHENTICATED),
    "a bearer token": (bearer("x.y.z"), UNAUTHENTICATED),
    "a user that says it is a daemon": ((*as_user("ann"), *DAEMON[1:2]), DENIED),
}


@pytest.mark.parametrize("case", BASIC_REFUSED)
async def test_basic_lets_nobody_else_in(tmp_path: Path, case: str) -> None:
    metadata, code = BASIC_REFUSED[case]
    async with serving(settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))) as served:
        codes = await served.call_all(metadata)
        assert {path: each for path, each in codes.items() if each is not code} == {}
        assert not served.calls
        assert await served.reflect(metadata) is code
        assert await served.call("/grpc.health.v1.Health/Check", metadata) is OK


async def test_a_user_cannot_forge_a_term(tmp_path: Path) -> None:
    async with serving(settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))) as served:
        path = "/peloton.api.v0.job.JobManager/Get"
        assert await served.call(path, (*as_user("ann"), *FORGED)) is DENIED
        assert await served.call(path, (*as_user("ann"), ("peloton-shards", "999999:0-63"))) is DENIED
        assert await served.call(path, as_user("ann")) is OK
        assert await served.call(path, DAEMON) is OK


async def test_an_unbound_role_may_only_ask_about_itself(tmp_path: Path) -> None:
    async with serving(settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))) as served:
        await refused(served, as_user("eve"), DENIED)
        assert await served.reflect(as_user("eve")) is OK


async def test_a_role_of_another_pool_reaches_only_methods_that_look_at_the_pool(tmp_path: Path) -> None:
    """Which these are is told by SCOPED. That each of them refuses is tested with the services themselves:
    tests/unit/jobmgr_services/test_scopes.py and tests/unit/resmgr/test_scoped_methods.py, by descriptors."""

    def looks(path: str) -> bool:
        service, method = split(path)
        return service == ACCESS or scoped(service, method)

    async with serving(settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))) as served:
        await let_in(served, as_user("dan"), looks)


async def test_a_user_of_everything_is_let_in_but_not_to_what_is_the_daemons(tmp_path: Path) -> None:
    async with serving(settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))) as served:
        await let_in(served, as_user("ann"), lambda path: not for_daemons_only(*split(path)))
        assert served.callers == {Principal("ann", Kind.USER, ("admin",))}


async def test_a_daemon_is_let_in(tmp_path: Path) -> None:
    async with serving(settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))) as served:
        await let_in(served, DAEMON, lambda path: True)
        assert served.callers == {Principal("jobmgr/one", Kind.DAEMON)}


async def test_a_reader_reads(tmp_path: Path) -> None:
    def granted(path: str) -> bool:
        service, method = split(path)
        read = service == "peloton.api.v0.task.TaskManager" or method.startswith("Get")
        return service == ACCESS or (read and method != "GetCache" and not for_daemons_only(service, method))

    async with serving(settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))) as served:
        await let_in(served, as_user("bob"), granted)


async def let_in(served: Served, metadata: Metadata, granted: Callable[[str], bool]) -> None:
    codes = await served.call_all(metadata)
    assert {path for path, code in codes.items() if code is OK} == {path for path in codes if granted(path)}
    assert set(codes.values()) <= {OK, DENIED}
    assert sum(served.calls.values()) == sum(code is OK for code in codes.values())


async def test_without_authentication_all_are_let_in(tmp_path: Path) -> None:
    async with serving(None) as served:
        await let_in(served, (), lambda path: True)
        assert {caller.kind for caller in served.callers} == {Kind.NOBODY}


OIDC_REFUSED: dict[str, tuple[Callable[[], Metadata], grpc.StatusCode]] = {
    "nobody": (lambda: (), UNAUTHENTICATED),
    "a password": (lambda: as_user("ann"), UNAUTHENTICATED),
    "expired": (lambda: token(exp=int(time.time()) - 3600), UNAUTHENTICATED),
    "not valid yet": (lambda: token(nbf=int(time.time()) + 3600), UNAUTHENTICATED),
    "wrong audience": (lambda: token(aud="another"), UNAUTHENTICATED),
    "no audience": (lambda: token(aud=None), UNAUTHENTICATED),
    "wrong issuer": (lambda: token(iss="https://evil.example.com"), UNAUTHENTICATED),
    "no issuer": (lambda: token(iss=None), UNAUTHENTICATED),
    "no end": (lambda: token(exp=None), UNAUTHENTICATED),
    "no name": (lambda: token(sub=None), UNAUTHENTICATED),
    "another's key": (lambda: token(OTHER), UNAUTHENTICATED),
    "an unknown key": (lambda: token(OTHER, kid="three"), UNAUTHENTICATED),
    "no signature": (lambda: token("", "none"), UNAUTHENTICATED),
    "the public key as a secret": (lambda: token(b"k" * 64, "HS256"), UNAUTHENTICATED),
    "garbage": (lambda: bearer("x.y.z"), UNAUTHENTICATED),
    "another scheme": (lambda: (("authorization", "Basic YW5uOmFubjE="),), UNAUTHENTICATED),
    "an unbound role": (lambda: token(groups=["visitors"]), DENIED),
    "an unbound group": (lambda: token(groups=["strangers"]), DENIED),
    "no groups": (lambda: token(groups=None), DENIED),
}


def oidc(folder: Path) -> Any:
    groups = "groups: [{group: platform, role: admin}, {group: visitors, role: unbound}]"
    return settings(
        folder,
        type="OIDC",
        config_file=private(folder / "roles.yaml", groups + ROLES),
        oidc=OidcSettings(issuer=ISSUER, audience=AUDIENCE, jwks_file=private(folder / "jwks.json", jwks())),
    )


@pytest.mark.parametrize("case", OIDC_REFUSED)
async def test_oidc_lets_nobody_else_in(tmp_path: Path, case: str) -> None:
    make, code = OIDC_REFUSED[case]
    async with serving(oidc(tmp_path)) as served:
        await refused(served, make(), code)


@pytest.mark.parametrize("signed_by", [(), (CURVE, "ES256", "two")], ids=["RSA", "EC"])
async def test_oidc_lets_a_member_of_a_bound_group_in(tmp_path: Path, signed_by: tuple[Any, ...]) -> None:
    async with serving(oidc(tmp_path)) as served:
        await let_in(served, token(*signed_by), lambda path: not for_daemons_only(*split(path)))
        assert served.callers == {Principal("ann", Kind.USER, ("admin",))}
