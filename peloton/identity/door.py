"""Who may make a call: authentication of daemons and users, then authorisation."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from peloton.config.auth import AuthSettings, OidcSettings
from peloton.config.errors import ConfigError
from peloton.config.tls import stamp_of
from peloton.errors import PermissionDenied, Unauthenticated
from peloton.identity.authenticators import Authenticator, Basic, Credentials, credentials_of
from peloton.identity.methods import RENEW, TASK_ACCESS, split
from peloton.identity.on_behalf import ROLE, check_passing, read
from peloton.identity.principal import Grant, Kind, Principal, enter
from peloton.identity.roles import Access, is_open
from peloton.identity.task_tokens import TaskDoor, is_task_token
from peloton.identity.tokens import DaemonTokens, read_tokens
from peloton.identity.userfile import Users, read_users

RELOAD_SECONDS = 5.0
_CHALLENGES = {"BASIC": 'Basic realm="peloton"', "OIDC": 'Bearer realm="peloton"'}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Users:
    """What the file of users says, ready to use."""

    users: Authenticator
    access: Access
    certificates: Mapping[str, Principal]

    def shown(self, names: Iterable[str]) -> Principal | None:
        """Return whom a certificate with these names shows; None for nobody. Raises Unauthenticated."""
        found = {self.certificates[name] for name in names if name in self.certificates}
        if len(found) > 1:
            raise Unauthenticated(f"the certificate is that of {' and of '.join(sorted(map(str, found)))}")
        return next(iter(found), None)


class Door:
    """Lets callers in, or tells why not. Made where authentication is on."""

    def __init__(self, settings: AuthSettings, by_certificate: bool = False) -> None:
        """Read the files that the settings name. Raises ConfigError.

        Whether callers show a TLS certificate is `by_certificate`.
        """
        assert settings.config_file is not None, "the settings check it"
        self._settings = settings
        self.by_certificate = by_certificate
        self._file: Path = settings.config_file
        self._tokens: DaemonTokens | None = (
            None if settings.token_file is None else read_tokens(settings.token_file)
        )
        self._stamp = stamp_of(self._file)
        self._policy = self._read()
        self.challenge = _CHALLENGES[settings.type]
        """By what users are asked to show who they are, as HTTP's WWW-Authenticate has it."""
        self.tasks: TaskDoor | None = None
        """What tells which task calls; None at daemons that tasks do not call."""
        self._passed_on = False
        self.trouble = ""
        """What is wrong with the file of users since it was changed; empty if nothing."""

    def recall(
        self, path: str, metadata: Iterable[tuple[str, str | bytes]], names: Iterable[str] = ()
    ) -> tuple[Principal, Grant] | Credentials | None:
        """Return who may make a call, and for what; credentials that have to be checked first; None for all.

        `names` are those of the caller's certificate. What a call carries besides counts more: a password,
        or a token. A job manager may pass on the call of another caller, whose names it tells then.
        Raises Unauthenticated and PermissionDenied.
        """
        if is_open(path):
            return None
        credentials = credentials_of(metadata)
        policy = self._policy
        shown = self._caller(policy, credentials, names)
        of_daemon = shown is not None and shown.kind is Kind.DAEMON
        if credentials.token or (of_daemon and credentials.absent):
            if shown is not None and of_daemon:
                enter(shown, ())
            daemon = self._daemon(credentials, shown.name if shown is not None and of_daemon else "")
            return _granted(policy, daemon, path)
        if credentials.instance or credentials.epoch or credentials.shards:
            raise PermissionDenied(
                "peloton-instance, peloton-epoch and peloton-shards are for daemons: there is no "
                "peloton-token" + (", and the certificate is none of a daemon" if self.by_certificate else "")
            )
        if is_task_token(credentials.bearer):  # never remembered: the run may have ended meanwhile
            if credentials.username:
                raise Unauthenticated("the call has a username and the token of a task: it is one of them")
            return credentials
        principal = shown if credentials.absent and shown is not None else policy.users.recall(credentials)
        if principal is None:
            return credentials
        return _granted(policy, principal, path)

    def believe_job_managers(self) -> None:
        """Take calls that job managers pass on for their callers. Raises ConfigError where none is known."""
        certificates = self._policy.certificates.values()
        if certificates and not any(each.kind is Kind.DAEMON and each.name == ROLE for each in certificates):
            raise ConfigError(
                f"{self._file}: certificates: has none of a job manager (`daemon: {ROLE}`): job managers "
                "that share the work could not pass calls on to each other"
            )
        self._passed_on = True

    def _caller(self, policy: _Users, credentials: Credentials, names: Iterable[str]) -> Principal | None:
        """Return whom the certificate of the caller shows, or of that for whom the call is passed on."""
        shown = policy.shown(names)
        if credentials.behalf is None:
            return shown
        if self._passed_on and self.by_certificate and not policy.certificates:
            return None  # no certificate shows anybody
        check_passing(shown, self._passed_on and self.by_certificate)
        return policy.shown(read(credentials.behalf))

    async def check(self, path: str, credentials: Credentials) -> tuple[Principal, Grant]:
        """Return the user who may make a call, and for what.

        Raises Unauthenticated, PermissionDenied, ResourceExhausted and Unavailable.
        """
        policy = self._policy
        if is_task_token(credentials.bearer):
            principal = await self._task(path, credentials.bearer)
        else:
            principal = await policy.users.check(credentials)
        return _granted(policy, principal, path)

    def may(self, principal: Principal, path: str) -> str | Grant:
        """Return for what a principal may make a call, or why it may not."""
        try:
            return self._policy.access.check(principal, path)
        except PermissionDenied as error:
            return str(error)

    def administers(self, principal: Principal) -> bool:
        """Return whether a principal may do all that operators may."""
        return self._policy.access.administers(principal)

    async def follow(self) -> None:
        """Read the file of users again whenever it has changed. One that is wrong changes nothing."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            await asyncio.to_thread(self.reload)

    def reload(self) -> None:
        """Read the file of users again if it has changed."""
        stamp = stamp_of(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._policy = self._read()
        except ConfigError as error:
            self.trouble = f"users are as they were, auth.config_file is wrong: {error}"
            log.error("%s", self.trouble)
        else:
            self.trouble = ""
            log.info("users and roles are read again")

    async def _task(self, path: str, token: str) -> Principal:
        if self.tasks is None:
            raise Unauthenticated("the token is a task's: it counts for the job manager only")
        return await self.tasks.check(token, renewing=split(path) == (TASK_ACCESS, RENEW))

    def _daemon(self, credentials: Credentials, role: str) -> Principal:
        """Return the daemon that calls; `role` is that of its certificate, empty where it shows none."""
        if credentials.token and (self._tokens is None or not self._tokens.accept(credentials.token)):
            raise Unauthenticated("peloton-token is none of this cluster's")
        if not role:
            return Principal(credentials.instance, Kind.DAEMON)
        for key, value in (("instance", credentials.instance), ("epoch", credentials.epoch)):
            if value and re.split("[/:]", value)[0] != role:
                raise PermissionDenied(
                    f"peloton-{key}: {value!r} is not of the role {role}, whose certificate is shown"
                )
        return Principal(credentials.instance or role, Kind.DAEMON, (role,))

    def _read(self) -> _Users:
        users = read_users(self._file)
        if users.plain and self._settings.type == "BASIC":
            log.warning(
                "%s: the passwords of %s are not hashed: `peloton auth hash` makes hashes",
                self._file,
                _some(users.plain),
            )
        self._check_daemons(users)
        return _Users(
            _authenticator(self._settings, users, self._file), Access(users.roles), users.certificates
        )

    def _check_daemons(self, users: Users) -> None:
        """Raise ConfigError for certificates that nobody is asked for, and where no daemon would be known."""
        if users.certificates and not self.by_certificate:
            raise ConfigError(f"{self._file}: certificates: count where tls.client_certificates is true only")
        known = {each.name for each in users.certificates.values() if each.kind is Kind.DAEMON}
        if self._tokens is None and not known:
            raise ConfigError(
                f"{self._file}: certificates: has none of a daemon, and there is no auth.token_file: the "
                "daemons would not know each other"
            )


def _granted(policy: _Users, principal: Principal, path: str) -> tuple[Principal, Grant]:
    """Return for what a principal may make a call; enter it, so that PermissionDenied is told of it."""
    enter(principal, ())
    return principal, policy.access.check(principal, path)


def _authenticator(settings: AuthSettings, users: Users, file: Path) -> Authenticator:
    if settings.type == "BASIC":
        if users.groups:
            raise ConfigError(f"{file}: groups: are of OIDC, and auth.type is BASIC")
        return Basic(users)
    if users.users or users.default_role:
        raise ConfigError(f"{file}: users: are of BASIC, and auth.type is OIDC: give roles to groups")
    return _oidc(settings.oidc, users)


def _oidc(settings: OidcSettings, users: Users) -> Authenticator:
    from peloton.identity import oidc  # its import takes 0.1 s

    fetch = (
        oidc.from_file(settings.jwks_file)
        if settings.jwks_file is not None
        else oidc.from_url(settings.jwks_url, settings.ca_file)
    )
    rules = oidc.TokenRules(settings.issuer, settings.audience, settings.user_claim, settings.groups_claim)
    return oidc.Oidc(rules, oidc.KeySet(fetch, settings.keys_seconds), users.groups)


def _some(names: Sequence[str], most: int = 5) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def sent_token(settings: AuthSettings) -> str:
    """Return the token of own calls; empty where there is none. Raises ConfigError."""
    return "" if settings.token_file is None else read_tokens(settings.token_file).sent
