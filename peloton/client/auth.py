"""Basic auth of a client: user and password are sent as metadata of calls (docs/behaviour/operation.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peloton.errors import InvalidArgument

_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """A user of the daemons' BASIC auth. The password stays out of `repr`."""

    username: str
    password: str = field(repr=False)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of a call of this user."""
        return (("username", self.username), ("password", self.password))

    @property
    def changes(self) -> bool:
        """Whether the metadata may differ from call to call."""
        return False


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """A user by a token of an identity provider (the daemons' OIDC). It stays out of `repr`."""

    token: str | Callable[[], str] = field(repr=False)
    """The token, or what tells it for each call, where it is renewed from time to time. It must not block."""
    of_task: bool = field(default=False, kw_only=True)
    """Whether it is that of a task, which reads logs through the job manager: it has nothing for agents."""

    @property
    def username(self) -> str:
        """The name, which only the token tells."""
        return ""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of a call of this user."""
        token = self.token() if callable(self.token) else self.token
        return (("authorization", f"Bearer {token}"),)

    @property
    def changes(self) -> bool:
        """Whether the metadata may differ from call to call."""
        return callable(self.token)


Auth = BasicAuth | BearerAuth


def read_auth(path: str | Path) -> Auth:
    """Read `username` and `password`, or `token`, from a YAML file.

    Raises InvalidArgument; never shows password or token.
    """
    import yaml

    try:
        text = Path(path).read_bytes()
        content = yaml.safe_load(text) if len(text) <= _MAX_BYTES else None
    except OSError as error:
        raise InvalidArgument("basicAuthConfig", str(path), f"a readable file: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise InvalidArgument("basicAuthConfig", str(path), "YAML") from error
    return _auth(content, str(path))


def read_basic_auth(path: str | Path) -> BasicAuth:
    """Read `username` and `password` from a YAML file. Raises InvalidArgument; never shows the password."""
    auth = read_auth(path)
    if not isinstance(auth, BasicAuth):
        raise InvalidArgument("basicAuthConfig", str(path), "a YAML mapping with username and password")
    return auth


def _auth(content: Any, path: str) -> Auth:
    if not isinstance(content, Mapping):
        raise InvalidArgument("basicAuthConfig", path, "a YAML mapping with username and password, or token")
    if isinstance(token := content.get("token"), str) and token.isascii() and len(content) == 1:
        return BearerAuth(token.strip())
    for key in ("username", "password"):
        if not isinstance(content.get(key), str) or not content[key].isascii():
            raise InvalidArgument(f"basicAuthConfig.{key}", path, "a file that gives it as ASCII text")
    return BasicAuth(content["username"], content["password"])
