"""Base classes of settings, the settings of every daemon, and how they are read.

Flags win over environment variables, those over YAML files, of which the last wins.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from peloton import __version__
from peloton.config.errors import ConfigError, describe_error
from peloton.config.sources import Files, Tree, Variable, Variables, variable_targets


class Settings(BaseModel):
    """Base of all settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SourcedSettings(Settings, BaseSettings):
    """Base of settings that `load` reads from files and variables; made directly, they read neither."""

    model_config = SettingsConfigDict(validate_default=False)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the arguments as the only source."""
        return (init_settings,)


class LocalMembershipSettings(Settings):
    """Daemons of one machine find each other and elect leaders by a folder."""

    kind: Literal["local"] = "local"
    """By a folder."""
    directory: Path = Path(".minicluster/membership")
    """Folder that they share."""


class ZooKeeperTlsSettings(Settings):
    """TLS to ZooKeeper, whose certificates must be for the names in `servers`.

    The files are PEM, and read again for each connection.
    """

    enabled: bool = False
    """Whether connections to the servers use TLS; `servers` then names their secureClientPort."""
    ca_file: Path | None = None
    """Certificates of the trusted authorities; without it, those of the system are trusted."""
    certificate_file: Path | None = None
    """The client certificate, which servers ask for unless `ssl.clientAuth` says otherwise."""
    key_file: Path | None = None
    """The key of the client certificate, where its file does not contain it. Mode 0600."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if not self.enabled and (self.ca_file or self.certificate_file or self.key_file):
            raise ValueError("tls: files are given, but enabled is not true")
        if self.key_file and not self.certificate_file:
            raise ValueError("tls: a key_file needs a certificate_file")
        return self


class ZooKeeperMembershipSettings(Settings):
    """Daemons find each other and elect leaders by ZooKeeper."""

    kind: Literal["zookeeper"] = "zookeeper"
    """By ZooKeeper."""
    servers: Annotated[str, Variable("ELECTION_ZK_SERVERS", selects_kind=True)]
    """host:port,host:port,…, followed by the path of a node where everything is to be below it."""
    root: str = "/peloton"
    """The node below which Peloton's nodes are."""
    session_seconds: float = Field(5.0, ge=1, le=60)
    """Time after which another leader follows one that vanished. The servers' maxSessionTimeout must not be
    shorter."""
    credentials_file: Path | None = None
    """File, mode 0600, with one line, user:password. Only this user may then change the nodes; anybody may
    read them."""
    tls: ZooKeeperTlsSettings = ZooKeeperTlsSettings()
    """TLS to the servers."""

    @field_validator("servers")
    @classmethod
    def _hosts_and_ports(cls, value: str) -> str:
        hosts = value.split("/", 1)[0]
        if not all(re.fullmatch(r"\s*[^\s,/]+:\d{1,5}\s*", each) for each in hosts.split(",")):
            raise ValueError("is not host:port,host:port… with a path behind the last one where needed")
        return value

    @field_validator("root")
    @classmethod
    def _a_path(cls, value: str) -> str:
        if not re.fullmatch(r"(/[^/\s]+)+", value):
            raise ValueError("is not the path of a node, such as /peloton")
        return value


def _membership_kind(value: Any) -> str:
    """Return the kind of a mapping; where none is given, ZooKeeper if servers are, else local."""
    if not isinstance(value, dict):
        return str(getattr(value, "kind", "local"))
    return str(value.get("kind") or ("zookeeper" if "servers" in value else "local"))


MembershipSettings = Annotated[
    Annotated[LocalMembershipSettings, Tag("local")]
    | Annotated[ZooKeeperMembershipSettings, Tag("zookeeper")],
    Discriminator(_membership_kind),
]


class OidcSettings(Settings):
    """Bearer tokens (JWT) of an OpenID Connect provider. Its groups have roles by `auth.config_file`."""

    issuer: str = ""
    """The claim `iss` that tokens must have."""
    audience: str = ""
    """What the claim `aud` must contain: the name of this cluster at the provider."""
    jwks_url: str = ""
    """Where the provider publishes its keys; https."""
    jwks_file: Path | None = None
    """Instead, a file with them."""
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
    """NOOP: they need not. BASIC: by username and password. OIDC: by a bearer token."""
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


class TlsSettings(Settings):
    """TLS of the gRPC and HTTP ports, and of calls to daemons. PEM files, read again on changes."""

    ca_file: Path | None = None
    """Certificates of the authorities that are trusted. Without it there is no TLS."""
    certificate_file: Path | None = None
    """The certificate of this process, for the address by which others find it; as a client, too."""
    key_file: Path | None = None
    """Its key, mode 0600."""
    client_certificates: bool = False
    """Whether callers of the gRPC port need a certificate of the authorities."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("a certificate_file needs a key_file, and a key_file a certificate_file")
        if self.certificate_file and not self.ca_file:
            raise ValueError("a certificate needs a ca_file: whoever calls others must know them")
        if self.client_certificates and not self.certificate_file:
            raise ValueError("client_certificates needs ca_file, certificate_file and key_file")
        return self


class AgentSettings(Settings):
    """Calls of the HTTP servers of Mesos agents, which have the files of tasks."""

    tls: bool = False
    """Whether they speak TLS, with certificates for the addresses by which they register."""
    ca_file: Path | None = None
    """Certificates of the trusted authorities, PEM; without it, those of the system are trusted."""
    principal: str = ""
    """The principal for Basic authentication; empty: none."""
    secret_file: Path | None = None
    """File, mode 0600, with the principal's secret on one line."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.ca_file and not self.tls:
            raise ValueError("ca_file is given, but tls is not true")
        if bool(self.principal) != bool(self.secret_file):
            raise ValueError("principal and secret_file must be given together")
        return self


class Rate(Settings):
    """A token bucket."""

    rate: float = Field(-1.0, allow_inf_nan=False)
    """Calls a second; negative: no limit."""
    burst: int = Field(100, ge=0)
    """Calls that may come at once."""


class MethodRate(Rate):
    """The token bucket of some methods."""

    methods: str = Field(pattern=r"^[^:\s]+:[^:\s]+$")
    """`service:method`; `*` and `?` stand for any letters."""


class PrincipalRateSettings(Settings):
    """Token buckets that each principal has for itself."""

    methods: tuple[MethodRate, ...] = ()
    """Token buckets of methods; the first one counts whose `methods` matches."""
    default: Rate = Rate()
    """The bucket of all other methods together."""


class RateLimitSettings(Settings):
    """How many calls are served; what exceeds it is answered RESOURCE_EXHAUSTED."""

    methods: tuple[MethodRate, ...] = ()
    """Token buckets of methods; the first one counts whose `methods` matches."""
    default: Rate = Rate()
    """The bucket of all other methods together."""
    principal: PrincipalRateSettings = PrincipalRateSettings()
    """How many calls of each principal are served."""


class CallLimitSettings(Settings):
    """How many calls run and wait; what exceeds it is answered RESOURCE_EXHAUSTED.

    A principal is a user; where auth.type is NOOP, what a caller calls itself (rpc-caller) at its address.
    Daemons are not limited.
    """

    running: int = Field(200, ge=1)
    """Calls that run at once, beside one of each principal. Further ones wait; principals take turns."""
    principal_running: int = Field(100, ge=1)
    """Calls of a principal that run at once."""
    waiting: int = Field(20_000, ge=0)
    """Calls that wait."""
    principal_waiting: int = Field(2_000, ge=0)
    """Calls of a principal that wait."""
    principal_bytes: int = Field(512 * 1024 * 1024, ge=0)
    """Bytes of the requests of a principal that are served or wait. One alone may be larger."""
    principal_streams: int | None = Field(None, ge=0)
    """Streams of a principal, such as watches. Where not set: 500; 1000 where auth.type is NOOP."""
    connection_streams: int = Field(100, ge=1)
    """Calls and streams of a connection; a client holds further ones back by itself. Calls of others wait for
    as many of each connection that floods: raise it only for clients with many watches."""


class TracingSettings(Settings):
    """Traces of jobs from their creation until their tasks run, for OpenTelemetry."""

    endpoint: str = ""
    """Where a collector takes traces by OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces. Where empty,
    nothing is traced."""
    ratio: float = Field(0.01, ge=0, le=1)
    """The part of the jobs that is traced. All daemons must have the same one, to choose the same jobs."""
    instances: int = Field(10, ge=1, le=10_000)
    """How many instances of a job are traced, the first ones. The same for all daemons."""

    @field_validator("endpoint")
    @classmethod
    def _an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and not (parts.scheme in ("http", "https") and parts.hostname):
            raise ValueError("is not the address of a collector, such as http://127.0.0.1:4318/v1/traces")
        return value


class ProcessSettings(SourcedSettings):
    """Settings of every process that serves HTTP and finds the daemons: of these, and of the web UI."""

    host: str = Field("127.0.0.1", min_length=1)
    """Address to listen on."""
    http_port: Annotated[int, Variable("HTTP_PORT")] = Field(0, ge=0, le=65535)
    """0 takes any free port."""
    cluster: Annotated[str, Variable("CLUSTER")] = ""
    """The cluster's name, for people."""
    debug: Annotated[bool, Variable("ENABLE_DEBUG_LOGGING", switch="--debug")] = False
    """Whether messages of level debug are logged too."""
    membership: MembershipSettings = LocalMembershipSettings()
    """How daemons find each other and elect leaders."""
    tls: TlsSettings = TlsSettings()
    """Encryption."""
    insecure: bool = False
    """Whether it may listen beyond loopback though nobody is asked who they are (auth.type is NOOP)."""


class DaemonSettings(ProcessSettings):
    """Settings of every daemon."""

    advertise: str = ""
    """Address at which others find this daemon. Where empty: the one listened on; if that is any
    (0.0.0.0, ::), the best of the host's."""
    grpc_port: Annotated[int, Variable("GRPC_PORT")] = Field(0, ge=0, le=65535)
    """0 takes any free port."""
    grpc_health: bool = True
    """Whether the gRPC port answers grpc.health.v1.Health, with what /health says."""
    grpc_reflection: bool = True
    """Whether the gRPC port describes its services to tools such as grpcurl."""
    instance: str = ""
    """Name of this instance in logs and in the membership; a new one is made where empty."""
    auth: AuthSettings = AuthSettings()
    """Who may call this daemon."""
    rate_limit: RateLimitSettings = RateLimitSettings()
    """How many calls are served."""
    call_limits: CallLimitSettings = CallLimitSettings()
    """How many calls run and wait."""
    tracing: TracingSettings = TracingSettings()
    """Where traces of jobs go."""
    audit: str = ""
    """File to which a JSON line is written for each call of a user that changes something, or is refused;
    `-` for standard output. Where empty: none is written. Created with mode 0600."""

    @model_validator(mode="after")
    def _serves_tls(self) -> Self:
        if self.tls.ca_file and not self.tls.certificate_file:
            raise ValueError("a daemon needs tls.certificate_file and tls.key_file too, to serve TLS")
        return self

    @model_validator(mode="after")
    def _knows_daemons(self) -> Self:
        auth = self.auth
        if auth.type != "NOOP" and auth.token_file is None and not self.tls.client_certificates:
            raise ValueError(
                f"auth.type {auth.type} needs a token_file, by which the daemons know each other, or "
                "certificates (tls.client_certificates)"
            )
        return self

    @property
    def exposed(self) -> bool:
        """Whether this daemon listens beyond loopback, and asks nobody who they are."""
        return self.auth.type == "NOOP" and not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether an address is one that only this machine reaches."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


S = TypeVar("S", bound=SourcedSettings)
D = TypeVar("D", bound=ProcessSettings)
M = TypeVar("M", bound=BaseModel)


def parse_arguments(cls: type[D], program: str, argv: Sequence[str] | None = None) -> tuple[D, bool]:
    """Read settings from the command line of a process; return whether only to check them too.

    -c FILE (repeated), --check, --debug, a flag per environment variable. Raises ConfigError. --help and
    --version print, and end the process with 0.
    """
    given = vars(_parser(cls, program).parse_args(argv))
    names = [target.variable.name for target in variable_targets(cls)]
    flags = {name: value for name in names if (value := given[name]) is not None}
    settings = load(cls, given["config"], flags, environment(cls))
    if isinstance(settings, DaemonSettings):
        _refuse_exposure(settings)
    return settings, bool(given["check"])


def _refuse_exposure(settings: DaemonSettings) -> None:
    if settings.exposed and not settings.insecure:
        raise ConfigError(
            f"host: {settings.host!r} is beyond loopback, and auth.type is NOOP: whoever reaches the ports "
            "may run commands on every agent. Set auth.type to BASIC or OIDC; or, where nobody else reaches "
            "this network, insecure: true"
        )


def _parser(cls: type[ProcessSettings], program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        allow_abbrev=False,
        description="A process of the Peloton cluster scheduler.",
        epilog="Flags win over environment variables, those over files. docs/settings.md lists all settings.",
    )
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    parser.add_argument(
        "-c",
        "--config",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="YAML file of settings; several are merged left to right",
    )
    parser.add_argument("--check", action="store_true", help="say whether the settings are right, and end")
    for target in variable_targets(cls):
        variable = target.variable
        help_text = f"sets {target.dotted}; environment {variable.name}"
        if variable.switch:
            parser.add_argument(
                variable.switch, action="store_const", const="true", dest=variable.name, help=help_text
            )
        else:
            parser.add_argument(variable.flag, dest=variable.name, metavar="VALUE", help=help_text)
    return parser


def environment(cls: type[SourcedSettings]) -> Mapping[str, str]:
    """Return the environment variables of a settings class that are set and not empty."""
    names = (target.variable.name for target in variable_targets(cls))
    return {name: value for name in names if (value := os.environ.get(name))}


def _variable_and_flag(variable: Variable) -> str:
    return f"{variable.name} or {variable.flag}"


def load(
    cls: type[S],
    files: Sequence[Path],
    *variables: Mapping[str, str],
    named: Callable[[Variable], str] = _variable_and_flag,
) -> S:
    """Read settings from variables, the first mapping winning, and from files, the last winning.

    `named` names a variable in errors. Raises ConfigError, with a line for each error.
    """
    sources = (*(Variables(cls, values) for values in variables), Files(cls, files))
    given = {
        target.dotted: named(target.variable)
        for target in variable_targets(cls)
        if any(target.variable.name in values for values in variables)
    }
    try:
        return cls(_build_sources=(sources, {}))
    except ValidationError as error:
        raise _config_error(error, cls, ", ".join(map(str, files)) or "settings", given) from None


def validated(cls: type[M], tree: Tree, source: str, given: Mapping[str, str] | None = None) -> M:
    """Validate a tree as a settings object.

    `given` names the origin of a setting, by its dotted path, where it is not `source`. Raises ConfigError,
    with a line for each error.
    """
    try:
        return cls.model_validate(tree)
    except ValidationError as error:
        raise _config_error(error, cls, source, given or {}) from None


def _config_error(
    error: ValidationError, cls: type[BaseModel], source: str, given: Mapping[str, str]
) -> ConfigError:
    return ConfigError("\n".join(describe_error(cls, source, given, item) for item in error.errors()))
