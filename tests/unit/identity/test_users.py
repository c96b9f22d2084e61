"""Passwords, caches, the file of users while it changes, keys that are rotated, and rate limits."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import example, given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm

from peloton.config.limits import MethodRate, Rate, RateLimitSettings
from peloton.errors import PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable
from peloton.identity import authenticators, password_checks
from peloton.identity.authenticators import Basic, Credentials
from peloton.identity.door import Door
from peloton.identity.oidc import PAUSE_SECONDS, KeySet, Oidc, TokenRules
from peloton.identity.password_checks import Guess, PasswordLines
from peloton.identity.passwords import Hashed, hashed, kept
from peloton.identity.principal import EVERYTHING, Kind, Principal, Scope
from peloton.identity.roles import Access, Pattern, RoleRules
from peloton.identity.userfile import read_users
from peloton.rpc.audit import Audit
from peloton.rpc.limits import RateLimits
from tests.unit.identity.served import CHEAP, ROLES, as_user, basic_file, private, serving, settings

ANN = Credentials("ann", "ann1")


@given(st.text(st.characters(codec="ascii", exclude_characters="\0")), st.text(st.characters(codec="ascii")))
@example("", "\0")
@example("secret", "secret\0")
def test_a_hash_matches_its_password_only(password: str, other: str) -> None:
    text = str(hashed(password, CHEAP))
    read = kept(text)
    assert isinstance(read, Hashed) and str(read) == text
    assert "digest" not in repr(read)
    assert read.matches(password)
    assert read.matches(other) is (password == other)


def test_a_password_with_a_nul_is_not_hashed() -> None:
    with pytest.raises(ValueError, match="NUL"):
        hashed("secret\0", CHEAP)


@pytest.mark.parametrize(
    "text",
    ["$scrypt$ln=30,r=8,p=1$c2FsdA$c2FsdHNhbHRzYWx0c2FsdA", "$scrypt$ln=4,r=8,p=1$c2FsdA$c2E", "$scrypt$"],
)
def test_a_hash_that_cannot_be_used_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        kept(text)


async def test_a_password_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    users = Basic(read_users(basic_file(tmp_path)), lambda: now)
    assert users.recall(ANN) is None
    assert await users.check(ANN) == Principal("ann", Kind.USER, ("admin",))
    assert users.recall(ANN) == Principal("ann", Kind.USER, ("admin",))
    assert users.recall(Credentials("ann", "ann2")) is None
    now = authenticators.PASSWORD_SECONDS - 1
    assert users.recall(ANN) is not None
    now += authenticators.PASSWORD_SECONDS - 1  # who goes on calling stays known
    assert users.recall(ANN) is not None
    now += authenticators.PASSWORD_SECONDS
    assert users.recall(ANN) is None


async def test_a_plain_password_is_taken_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = private(tmp_path / "users.yaml", f"users: [{{username: ann, password: ann1, role: admin}}]{ROLES}")
    Door(settings(tmp_path, type="BASIC", config_file=file))
    assert "the passwords of ann are not hashed: `peloton auth hash`" in caplog.text
    assert "ann1" not in caplog.text
    await Basic(read_users(file)).check(ANN)
    with pytest.raises(Unauthenticated):
        await Basic(read_users(file)).check(Credentials("ann", "ann2"))


async def test_a_password_that_many_calls_bring_at_a_time_is_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All clients come to a new leader at once: those of one user neither wait in line nor are refused."""
    basic = Basic(read_users(basic_file(tmp_path)))
    hashes: list[str] = []
    hashing = Hashed.matches

    def counted(self: Hashed, password: str) -> bool:
        hashes.append(password)
        return hashing(self, password)

    monkeypatch.setattr(Hashed, "matches", counted)
    many = 3 * password_checks.MAX_WAITING
    tries = [basic.check(Credentials("ann", word)) for word in ("ann1", "guess") for _ in range(many)]
    found = await asyncio.gather(*tries, return_exceptions=True)
    assert found[:many] == [Principal("ann", Kind.USER, ("admin",))] * many
    assert {type(each) for each in found[many:]} == {Unauthenticated}
    assert sorted(hashes) == ["ann1", "guess"]


async def test_a_wrong_password_is_remembered_for_a_short_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that goes on with a wrong one costs nothing."""
    now = 0.0
    basic = Basic(read_users(basic_file(tmp_path)), lambda: now)
    hashes: list[str] = []

    def wrong(self: Hashed, password: str) -> bool:
        hashes.append(password)
        return False

    monkeypatch.setattr(Hashed, "matches", wrong)
    for later, count in ((0.0, 1), (authenticators.WRONG_SECONDS - 1, 1), (authenticators.WRONG_SECONDS, 2)):
        now = later
        with pytest.raises(Unauthenticated):
            await basic.check(Credentials("ann", "guess"))
        assert len(hashes) == count


async def test_who_does_not_wait_for_the_hash_finds_it_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a hash takes longer than a call: else no call would ever be answered."""
    basic = Basic(read_users(basic_file(tmp_path)))
    going, hashing = threading.Event(), Hashed.matches
    hashes: list[str] = []

    def slow(self: Hashed, password: str) -> bool:
        hashes.append(password)
        assert going.wait(60)
        return hashing(self, password)

    monkeypatch.setattr(Hashed, "matches", slow)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await basic.check(ANN)
    going.set()
    assert (await basic.check(ANN)).name == "ann"
    assert len(hashes) == 1


async def test_a_plain_password_takes_as_long_as_a_hashed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the time would tell that there is such a user."""
    users = f"users: [{{username: ann, password: ann1, role: admin}}]{ROLES}"
    basic = Basic(read_users(private(tmp_path / "users.yaml", users)))
    hashes: list[str] = []
    hashing = Hashed.matches

    def counted(self: Hashed, password: str) -> bool:
        hashes.append(password)
        return hashing(self, password)

    monkeypatch.setattr(Hashed, "matches", counted)
    for name in ("ann", "nobody of this name"):
        with pytest.raises(Unauthenticated):
            await basic.check(Credentials(name, f"wrong of {name}"))
    assert hashes == ["wrong of ann", "wrong of nobody of this name"]


async def test_wrong_credentials_are_in_the_audit_log_whatever_they_are_tried_with(tmp_path: Path) -> None:
    lines: list[str] = []
    audit = Audit(lines.append, lambda: 0)
    wrong = (
        as_user("ann", "guessed-it"),
        (("peloton-token", "g" * 40), ("peloton-instance", "jobmgr/x")),
        (("authorization", "Bearer g.g.g"),),
    )
    users = settings(tmp_path, type="BASIC", config_file=basic_file(tmp_path))
    async with serving(users, audit=audit) as served:
        for metadata in (*wrong, (), as_user("ann")):
            await served.call("/peloton.api.v0.job.JobManager/Get", metadata)
    noted = [json.loads(line) for line in lines]
    assert [(each["code"], each["address"]) for each in noted] == [("UNAUTHENTICATED", "127.0.0.1")] * 3
    assert "guess" not in str(lines) and "ggg" not in str(lines) and "g.g" not in str(lines)


async def test_the_default_user_has_its_role(tmp_path: Path) -> None:
    file = basic_file(tmp_path, "- {role: reader}")
    async with serving(settings(tmp_path, type="BASIC", config_file=file)) as served:
        assert await served.call("/peloton.api.v0.job.JobManager/Get", ()) is grpc.StatusCode.OK
        code, text = await served.answer("/peloton.api.v0.job.JobManager/Create", ())
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert text == (
            "the default user may not call peloton.api.v0.job.JobManager/Create: the role reader does not "
            "accept peloton.api.v0.job.JobManager:Create"
        )
        wrong = await served.call("/peloton.api.v0.job.JobManager/Get", as_user("bob", "no"))
        assert wrong is grpc.StatusCode.UNAUTHENTICATED


def rules(accept: str = "", reject: str = "") -> RoleRules:
    return RoleRules(_patterns(tuple(accept.split())), _patterns(tuple(reject.split())))


def test_what_one_role_rejects_no_other_accepts() -> None:
    access = Access({"a": rules("*"), "b": rules(reject="peloton.api.v0.job.JobManager:Del*"), "c": rules()})
    path = "/peloton.api.v0.job.JobManager/Delete"
    access.check(Principal("x", Kind.USER, ("a", "c")), path)
    for roles in (("a", "b"), ("b", "a"), ("b",), ("c",), ()):
        with pytest.raises(PermissionDenied):
            access.check(Principal("x", Kind.USER, roles), path)
    with pytest.raises(PermissionDenied, match=r"the role b rejects peloton.api.v0.job.JobManager:Del\*"):
        # by its older name
        access.check(Principal("x", Kind.USER, ("a", "b")), "/peloton.api.job.JobManager/Delete")


@pytest.mark.parametrize("text", ["", "a", "a:", ":b", "a*b:c", "a:b*c", "a:b:c", "*:"])
def test_a_rule_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not `service:method`"):
        Pattern.parse(text)


async def test_users_are_read_again_when_the_file_changes(tmp_path: Path) -> None:
    file = basic_file(tmp_path)
    door = Door(settings(tmp_path, type="BASIC", config_file=file))
    path, old, new = (
        "/peloton.api.v0.job.JobManager/Get",
        Credentials("ann", "ann1"),
        Credentials("ann", "new"),
    )
    assert (await door.check(path, old))[0].name == "ann"
    replace(file, file.read_text().replace("ann,", "ann, #"))  # broken
    door.reload()
    assert "users are as they were, auth.config_file is wrong" in door.trouble
    assert isinstance(door.recall(path, as_user("ann")), tuple)
    replace(file, f"users: [{{username: ann, password: '{hashed('new', CHEAP)}', role: admin}}]{ROLES}")
    door.reload()
    assert not door.trouble
    assert door.recall(path, as_user("ann")) == old
    with pytest.raises(Unauthenticated):
        await door.check(path, old)
    assert (await door.check(path, new))[0].name == "ann"


def replace(file: Path, text: str) -> None:
    draft = private(file.with_suffix(".new"), text)
    draft.replace(file)


class Provider:
    """An identity provider whose keys change, and which may be away."""

    def __init__(self) -> None:
        self.reads = 0
        self.away = False
        self.keys: dict[str, Any] = {}
        self.rotate("one")

    def rotate(self, kid: str) -> None:
        self.keys = {kid: ec.generate_private_key(ec.SECP256R1())}

    async def fetch(self) -> bytes:
        self.reads += 1
        if self.away:
            raise OSError("nobody answers")
        keys = [
            {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid}
            for kid, key in self.keys.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token(self, kid: str, exp: float) -> Credentials:
        claims = {"iss": "i", "aud": "a", "sub": "ann", "exp": exp, "groups": "g"}
        return Credentials(bearer=jwt.encode(claims, self.keys[kid], "ES256", headers={"kid": kid}))


class Times:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def users_of(provider: Provider, times: Times) -> Oidc:
    keys = KeySet(provider.fetch, 600, times)
    return Oidc(TokenRules("i", "a"), keys, {"g": ("admin",)}, times)


async def test_keys_are_cached_and_rotated() -> None:
    provider, times = Provider(), Times()
    users = users_of(provider, times)
    first = provider.token("one", 4e9)
    for _ in range(3):
        assert (await users.check(first)).roles == ("admin",)
    assert provider.reads == 1
    provider.rotate("two")
    second = provider.token("two", 4e9)
    with pytest.raises(Unauthenticated):  # the keys have just been read
        await users.check(second)
    assert provider.reads == 1
    times.now += PAUSE_SECONDS
    assert await users.check(second)
    assert provider.reads == 2
    with pytest.raises(Unauthenticated):  # its key is withdrawn
        await users.check(first)


async def test_known_keys_go_on_while_the_provider_is_away() -> None:
    provider, times = Provider(), Times()
    provider.away = True
    users = users_of(provider, times)
    token = provider.token("one", 4e9)
    with pytest.raises(Unavailable, match="the issuer's keys cannot be read: nobody answers"):
        await users.check(token)
    provider.away = False
    times.now += PAUSE_SECONDS
    assert await users.check(token)
    provider.away = True
    times.now += 3600
    assert await users.check(token)
    assert provider.reads == 3


async def test_a_token_is_not_remembered_beyond_its_end() -> None:
    provider, times = Provider(), Times()
    wall = 1_000.0
    keys = KeySet(provider.fetch, 600, times)
    users = Oidc(TokenRules("i", "a", leeway=1e10), keys, {}, times, lambda: wall)
    token = provider.token("one", 1_100)
    await users.check(token)
    assert users.recall(token)
    times.now += 100
    assert users.recall(token) is None


class SlowHashes:
    """Hashes that wait until the test lets them go on; counts how many are made at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.going, self.begun, self.now, self.most = threading.Event(), [], 0, 0
        hashing, lock = Hashed.matches, threading.Lock()

        def slow(kept: Hashed, password: str) -> bool:
            with lock:
                self.begun.append(password)
                self.now += 1
                self.most = max(self.most, self.now)
            assert self.going.wait(60)
            try:
                return hashing(kept, password)
            finally:
                with lock:
                    self.now -= 1

        monkeypatch.setattr(Hashed, "matches", slow)

    begun: list[str]

    async def until_begun(self, count: int) -> None:
        """Wait until `count` have begun, each in a thread of its own."""
        async with asyncio.timeout(60):
            while len(self.begun) < count:  # noqa: ASYNC110 - of other threads
                await asyncio.sleep(0.005)


async def test_many_wrong_passwords_are_checked_two_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, hashes = Basic(read_users(basic_file(tmp_path))), SlowHashes(monkeypatch)
    most = password_checks.MAX_WAITING  # all come before the first one is taken up
    tries = [asyncio.create_task(users.check(Credentials("ann", str(i)))) for i in range(most + 8)]
    await hashes.until_begun(password_checks.HASHES_AT_ONCE)
    hashes.going.set()
    found = await asyncio.gather(*tries, return_exceptions=True)
    kinds = [type(each).__name__ for each in found]
    assert kinds.count("Unauthenticated") == most
    assert kinds.count("ResourceExhausted") == 8
    assert hashes.most == password_checks.HASHES_AT_ONCE


async def test_guesses_delay_no_name_that_has_logged_in_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    users = Basic(read_users(basic_file(tmp_path)), lambda: now)
    assert (await users.check(ANN)).name == "ann"
    now = 2 * authenticators.PASSWORD_SECONDS
    hashes = SlowHashes(monkeypatch)
    guesses = [asyncio.create_task(users.check(Credentials(f"name {i}", "guess"))) for i in range(15)]
    await hashes.until_begun(password_checks.HASHES_AT_ONCE)
    login = asyncio.create_task(users.check(ANN))
    await asyncio.sleep(0.05)  # a login that did not come before the guesses would come after them
    hashes.going.set()
    assert (await login).name == "ann"
    await asyncio.gather(*guesses, return_exceptions=True)
    assert hashes.begun.index("ann1") <= password_checks.HASHES_AT_ONCE + 1


def test_lines_of_passwords_take_turns_and_are_bounded() -> None:
    lines = PasswordLines()
    made = {name: Guess(name, (), asyncio.Future(loop=asyncio.new_event_loop())) for name in "abcdx"}
    for line, name in (("", "a"), ("", "b"), ("", "c"), ("ann", "x"), ("", "d")):
        lines.push(line, made[name])
    order = [guess.password for guess in iter(lines.pop, None)]
    assert order == ["a", "x", "b", "c", "d"]
    for _ in range(password_checks.MAX_WAITING):
        lines.push("", made["a"])
    with pytest.raises(ResourceExhausted, match="20 passwords wait"):
        lines.push("", made["a"])
    lines.push("ann", made["x"])


def test_rate_limits_are_token_buckets_by_method() -> None:
    times = Times()
    limits = RateLimits(
        RateLimitSettings(
            methods=(
                MethodRate(methods="peloton.api.v0.job.JobManager:Get*", rate=-1),
                MethodRate(methods="*:Create*", rate=2, burst=3),
                MethodRate(methods="*:Drain", rate=0, burst=0),
            ),
            default=Rate(rate=1, burst=1),
        ),
        times,
    )

    def takes(path: str) -> bool:
        try:
            limits.take(path)
        except ResourceExhausted:
            return False
        return True

    get, create, drain = (
        "/peloton.api.job.JobManager/Get",
        "/peloton.api.v0.job.JobManager/Create",
        "/peloton.api.x.Y/Drain",
    )
    assert all(takes(get) for _ in range(100))
    assert [takes(create) for _ in range(4)] == [True, True, True, False]
    assert not takes(drain)
    assert [takes("/x/A"), takes("/x/B")] == [True, False]
    times.now += 0.5
    assert [takes(create), takes(create)] == [True, False]
    times.now += 100
    assert [takes(create) for _ in range(4)] == [True, True, True, False]
    assert not takes(drain)


async def test_what_exceeds_the_limit_is_answered_so() -> None:
    limits = RateLimitSettings(methods=(MethodRate(methods="*.JobManager:Query", rate=0, burst=2),))
    async with serving(None, limits) as served:
        path = "/peloton.api.v0.job.JobManager/Query"
        answers = [await served.answer(path, ()) for _ in range(3)]
        assert [code for code, _ in answers[:2]] == [grpc.StatusCode.OK] * 2
        assert answers[2] == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "peloton.api.v0.job.JobManager/Query: more than 0 calls a second, 2 at once "
            "(rate_limit.methods: *.JobManager:Query): try again after the setting has been changed",
        )
        assert await served.call("/peloton.api.v0.job.JobManager/Get", ()) is grpc.StatusCode.OK


def access_of(**roles: tuple[str, ...]) -> Access:
    rules = RoleRules(
        _patterns(roles.get("accept", ())),
        _patterns(roles.get("reject", ())),
        _patterns(roles.get("own", ())),
        roles.get("pools", ()),
    )
    return Access({"role": rules})


def _patterns(texts: tuple[str, ...]) -> tuple[Pattern, ...]:
    return tuple(map(Pattern.parse, texts))


MEMBER = Principal("ann", Kind.USER, ("role",))
STOP, LOCK = "/peloton.api.v0.job.JobManager/Stop", "/peloton.api.v1alpha.admin.svc.AdminService/Lockdown"


def test_a_role_of_pools_grants_what_is_in_them_only() -> None:
    access = access_of(accept=("*",), reject=("*:Delete*",), pools=("/a",))
    assert access.check(MEMBER, STOP) == (Scope(("/a",)),)
    with pytest.raises(PermissionDenied, match="it is about more than jobs below /a"):
        access.check(MEMBER, LOCK)
    with pytest.raises(PermissionDenied, match=r"the role role rejects \*:Delete\*"):
        access.check(MEMBER, "/peloton.api.v0.job.JobManager/Delete")
    assert access_of(accept=("*",)).check(MEMBER, LOCK) == EVERYTHING
    assert access_of(accept=("*:Get*",), own=("*",)).check(MEMBER, STOP) == (Scope(own=True),)


@pytest.mark.parametrize(
    ("pool", "inside"), [("/a", True), ("/a/b", True), ("/ab", False), ("/", False), ("", False)]
)
def test_a_subtree_of_pools(pool: str, inside: bool) -> None:
    assert Scope(("/a",)).holds(pool, owned=False) is inside
    assert Scope(("/",)).holds(pool, owned=False) is bool(pool)
    assert not Scope(("/a",), own=True).holds(pool, owned=False)
