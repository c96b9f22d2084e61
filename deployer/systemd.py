"""Unit files of systemd, for hosts without Mesos agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from deployer.installation import Installation, RoleName
from deployer.rendering import as_yaml, environment_of, settings_of, store_settings
from deployer.tasks import GRACE_SECONDS
from peloton.config.private import make_folder, write_private
from peloton.config.sources import Tree
from peloton.errors import InvalidArgument, Unavailable

CONFIGURATION = "/etc/peloton"
USER = "peloton"
PORTS: dict[RoleName, tuple[int, int]] = {
    "jobmgr": (5292, 5392),
    "resmgr": (5290, 5394),
    "hostmgr": (5291, 5391),
    "placement": (5293, 5393),
    "archiver": (5295, 5395),
    "web": (5297, 0),
}
"""HTTP and gRPC port of the first group of a role; each further one takes 10 more."""
_MIB = 1024 * 1024


def write_units(installation: Installation, directory: Path) -> Iterator[Path]:
    """Write the files, and yield their paths. Raises InvalidArgument for an image, Unavailable."""
    if installation.version.image:
        raise InvalidArgument(
            "version.image",
            installation.version.image,
            "an environment or a wheel, which systemd runs daemons from",
        )
    units, settings = directory / "systemd", directory / "settings"
    try:
        for folder in (directory, units, settings):
            make_folder(folder)
        for path, text in _files(installation, units, settings):
            write_private(path, text)
            yield path
    except OSError as error:
        raise Unavailable(f"{error.filename}: {error.strerror}") from None


def _files(installation: Installation, units: Path, settings: Path) -> Iterator[tuple[Path, str]]:
    seen: dict[RoleName, int] = {}
    program = environment_of(installation.version)
    yield units / "peloton.target", _target(installation)
    yield units / "peloton-migrate.service", _migrate(program)
    yield settings / "storage.yaml", as_yaml(store_settings(installation))
    for group in installation.groups:
        role = installation.role_of(group)
        number = seen[role] = seen.get(role, -1) + 1
        yield units / f"peloton-{group}.service", _service(installation, group, program)
        yield settings / f"{group}.yaml", as_yaml(_settings(installation, group, number))


def _settings(installation: Installation, group: str, number: int) -> Tree:
    role = installation.role_of(group)
    http, grpc = (port + 10 * number if port else 0 for port in PORTS[role])
    own: Tree = {"http_port": http}
    if grpc:
        own["grpc_port"] = grpc
    return {**own, **settings_of(installation, group)}


def _target(installation: Installation) -> str:
    wants = " ".join(f"peloton-{group}.service" for group in installation.groups)
    return f"""[Unit]
Description=Peloton {installation.name}, the daemons of this host
Documentation=man:systemd.target(5)
Wants={wants}

[Install]
WantedBy=multi-user.target
"""


def _migrate(program: str) -> str:
    return f"""[Unit]
Description=The schema of Peloton's store
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
User={USER}
ExecStart={program}/bin/peloton-migrate up -c {CONFIGURATION}/storage.yaml
UMask=0077
NoNewPrivileges=yes
ProtectSystem=full
"""


def _service(installation: Installation, group: str, program: str) -> str:
    daemons = installation.daemons[group]
    role = installation.role_of(group)
    return f"""[Unit]
Description=Peloton {group}
After=network-online.target peloton-migrate.service
Wants=network-online.target
PartOf=peloton.target
StartLimitIntervalSec=0

[Service]
Type=exec
User={USER}
ExecStart={program}/bin/peloton-{role} -c {CONFIGURATION}/{group}.yaml
Restart=always
RestartSec=5
KillMode=mixed
TimeoutStopSec={GRACE_SECONDS}
StateDirectory=peloton
WorkingDirectory=/var/lib/peloton
UMask=0077
LimitNOFILE=1048576
CPUWeight={max(1, min(10_000, round(100 * daemons.cpus)))}
MemoryMax={round(daemons.mem * _MIB)}
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=full
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
LockPersonality=yes

[Install]
WantedBy=peloton.target
"""
