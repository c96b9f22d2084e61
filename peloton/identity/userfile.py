"""The file of users, groups and roles that `auth.config_file` names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from peloton.config.base import Settings
from peloton.config.errors import ConfigError, describe_error
from peloton.config.private import require_private
from peloton.config.sources import read_yaml
from peloton.identity.passwords import Kept, Plain, kept
from peloton.identity.principal import Kind, Principal
from peloton.identity.roles import Pattern, RoleRules, check_known


class UserEntry(Settings):
    """A user. One may have neither name nor password: calls without credentials are made by it."""

    username: str = Field("", max_length=256)
    password: str = Field("", repr=False, max_length=4096)
    role: str = Field(min_length=1)


class GroupEntry(Settings):
    """A group of an identity provider, whose members have a role."""

    group: str = Field(min_length=1)
    role: str = Field(min_length=1)


class CertificateEntry(Settings):
    """A caller that is known by its TLS certificate: a daemon, or a user with a role."""

    name: str = Field(min_length=1)
    """The common name of the subject, or one of the alternative names."""
    daemon: Literal["jobmgr", "resmgr", "hostmgr", "placement", "archiver", ""] = ""
    user: str = Field("", max_length=256)
    """The user's name where it is not `name`."""
    role: str = ""


class RoleEntry(Settings):
    """A role; what it rejects wins over what it accepts. `own` is accepted for the caller's own jobs."""

    role: str = Field(min_length=1)
    accept: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()


class UserFile(Settings):
    """The content of the file."""

    users: tuple[UserEntry, ...] = ()
    groups: tuple[GroupEntry, ...] = ()
    certificates: tuple[CertificateEntry, ...] = ()
    roles: tuple[RoleEntry, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class User:
    """A user with a password."""

    name: str
    password: Kept
    role: str


@dataclass(frozen=True, slots=True)
class Users:
    """What the file says."""

    users: Mapping[str, User]
    default_role: str
    """The role of the default user; empty where there is none."""
    groups: Mapping[str, tuple[str, ...]]
    """Roles by group."""
    roles: Mapping[str, RoleRules]
    certificates: Mapping[str, Principal] = field(default_factory=dict)
    """Users and daemons by a name in their certificates; the role of a daemon is its only one."""

    @property
    def plain(self) -> list[str]:
        """The users whose passwords are not hashed."""
        return sorted(user.name for user in self.users.values() if isinstance(user.password, Plain))


def read_users(path: Path) -> Users:
    """Read the file. Raises ConfigError, with a line for each error and without any value of the file."""
    require_private(path, "auth.config_file")
    tree = read_yaml(path, secret=True)
    try:
        file = UserFile.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(
            "\n".join(
                describe_error(UserFile, str(path), {}, {**item, "input": "(hidden)"})
                for item in error.errors(include_input=False, include_context=True)
            )
        ) from None
    wrong = [f"{path}: {each}" for each in _wrong(file)]
    if wrong:
        raise ConfigError("\n".join(wrong))
    return _built(file)


def _built(file: UserFile) -> Users:
    groups: dict[str, tuple[str, ...]] = {}
    for entry in file.groups:
        groups[entry.group] = (*groups.get(entry.group, ()), entry.role)
    named = [user for user in file.users if user.username]
    return Users(
        {user.username: User(user.username, kept(user.password), user.role) for user in named},
        next((user.role for user in file.users if not user.username), ""),
        groups,
        {
            entry.role: RoleRules(
                _patterns(entry.accept), _patterns(entry.reject), _patterns(entry.own), entry.pools
            )
            for entry in file.roles
        },
        {entry.name: _known_by(entry) for entry in file.certificates},
    )


def _known_by(entry: CertificateEntry) -> Principal:
    if entry.daemon:
        return Principal(entry.daemon, Kind.DAEMON, (entry.daemon,))
    return Principal(entry.user or entry.name, Kind.USER, (entry.role,))


def _patterns(texts: Sequence[str]) -> tuple[Pattern, ...]:
    return tuple(map(Pattern.parse, texts))


def _wrong(file: UserFile) -> Iterator[str]:
    """Yield what is wrong with a file of the right form."""
    roles = {entry.role for entry in file.roles}
    for name, count in Counter(entry.role for entry in file.roles).items():
        if count > 1:
            yield f"roles: {name!r} is there {count} times"
    yield from _wrong_users(file.users, roles)
    for i, group in enumerate(file.groups):
        if group.role not in roles:
            yield f"groups.{i}.role: {group.role!r} is not one of the roles {', '.join(sorted(roles))}"
    yield from _wrong_certificates(file.certificates, roles)
    for i, entry in enumerate(file.roles):
        for j, path in enumerate(entry.pools):
            if not re.fullmatch(r"/|(/[^/]+)+", path):
                yield f"roles.{i}.pools.{j}: {path!r} is no path of a pool, such as /a/b"
        for name, texts in (("accept", entry.accept), ("reject", entry.reject), ("own", entry.own)):
            for j, text in enumerate(texts):
                try:
                    check_known(Pattern.parse(text))
                except ValueError as error:
                    yield f"roles.{i}.{name}.{j}: {text!r} {error}"


def _wrong_certificates(entries: Sequence[CertificateEntry], roles: set[str]) -> Iterator[str]:
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            yield f"certificates: {name!r} is there {count} times"
    for i, entry in enumerate(entries):
        if bool(entry.daemon) == bool(entry.role) or (entry.daemon and entry.user):
            yield f"certificates.{i}: {entry.name!r} needs either `daemon`, or the `role` of a user"
        elif entry.role and entry.role not in roles:
            yield (
                f"certificates.{i}.role: {entry.role!r} is not one of the roles {', '.join(sorted(roles))}"
            )


def _wrong_users(users: Sequence[UserEntry], roles: set[str]) -> Iterator[str]:
    for name, count in Counter(user.username for user in users).items():
        if count > 1:
            yield (
                f"users: {name!r} is there {count} times" if name else "users: only one may have no username"
            )
    for i, user in enumerate(users):
        where = f"users.{i}"
        if user.role not in roles:
            yield f"{where}.role: {user.role!r} is not one of the roles {', '.join(sorted(roles))}"
        if bool(user.username) != bool(user.password):
            missing = "password" if user.username else "username"
            yield f"{where}.{missing}: is needed; only the default user has neither name nor password"
        if not (user.username.isprintable() and user.username.isascii() and user.password.isascii()):
            yield f"{where}: name and password are ASCII text: they travel as gRPC metadata"
        try:
            kept(user.password)
        except ValueError as error:
            yield f"{where}.password: {error}"
