"""Settings of how callers show who they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from peloton.config.addresses import is_loopback
from peloton.config.base import Settings
from peloton.config.sources import Variable


class OidcSettings(Settings):
    """Bearer tokens (JWT) of an OpenID Connect provider. Its groups have roles by `auth.config_file`."""

    issuer: str = ""
    """The claim `iss` that tokens must have."""
    audience: str = ""
    """What the claim `aud` must contain: the name of this cluster at the provider."""
    jwks_url: str = ""
    """Where the provider publishes its keys; https."""
    jwks_file: Path | None = None
    """A file with the provider's keys, in place of `jwks_url`."""
    ca_file: Path | None = None
    """Certificates of the authorities that are trusted for jwks_url; without it, those of the system."""
    keys_seconds: float = Field(600.0, ge=1)
    """Seconds after which the keys are read again. A token with an unknown key has them read at once."""
    user_claim: str = Field("sub", min_length=1)
    """The claim that is the user's name."""
    groups_claim: str = Field("groups", min_length=1)
    """The claim that lists the user's groups."""

    @field_validator("jwks_url")
    @classmethod
    def _encrypted(cls, value: str) -> str:
        parts = urlsplit(value)
        local = parts.scheme == "http" and is_loopback(parts.hostname or "")
        if value and not (parts.hostname and (parts.scheme == "https" or local)):
            raise ValueError("is no https address: whoever answers in its place makes every token valid")
        return value


class AuthSettings(Settings):
    """How callers show who they are."""

    type: Annotated[Literal["NOOP", "BASIC", "OIDC"], Variable("AUTH_TYPE")] = "NOOP"
    """NOOP: callers are not asked. BASIC: by username and password. OIDC: by a bearer token."""
    config_file: Annotated[Path | None, Variable("AUTH_CONFIG_FILE")] = None
    """YAML file, mode 0600, with users (BASIC) or groups (OIDC), certificates, and roles. Read again when it
    changes."""
    token_file: Annotated[Path | None, Variable("PELOTON_SECRET_FILE")] = None
    """File, mode 0600, with the secret by which the daemons know each other. Of several lines, the first is
    sent, and all are accepted. Without it the daemons know each other by their certificates alone, as the
    certificates in config_file say."""
    oidc: OidcSettings = OidcSettings()
    """The provider of bearer tokens."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        off = self.type == "NOOP"
        if off and self.config_file is not None:
            raise ValueError("config_file is given, but type is NOOP, which reads none")
        if not off and self.config_file is None:
            raise ValueError(f"{self.type} needs a config_file, with users and roles")
        if self.type != "OIDC" and self.oidc != OidcSettings():
            raise ValueError(f"oidc is set, but type is {self.type}")
        oidc = self.oidc
        if self.type == "OIDC" and not (
            oidc.issuer and oidc.audience and bool(oidc.jwks_url) != bool(oidc.jwks_file)
        ):
            raise ValueError("OIDC needs oidc.issuer, oidc.audience, and oidc.jwks_url or oidc.jwks_file")
        return self
