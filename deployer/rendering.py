"""What an installation comes to: groups as the core knows them, settings and command lines of daemons."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from deployer.core.placing import Need
from deployer.core.values import Gate, Group, Wanted
from deployer.installation import LED, STORED, Installation, RoleName, Version, with_secrets
from peloton.config.sources import Tree, merged

SETTINGS = "PELOTON_DEPLOY_SETTINGS"
"""Variable of a task that has the settings of its daemon, as YAML. They name secrets, and have none."""
CONTAINER_SETTINGS = "/tmp/peloton-settings.yaml"
_WITHOUT_GRPC: frozenset[RoleName] = frozenset({"web"})
_DIGITS = 12


def wanted_of(installation: Installation, revision: int, fallback: int | None = None) -> Wanted:
    """Return what the core needs to know of an installation."""
    upgrade = installation.upgrade
    return Wanted(
        revision,
        tuple(_group(installation, name) for name in installation.groups),
        Gate(upgrade.healthy_within, upgrade.settle, upgrade.canary, upgrade.tries),
        schema=_digest({"version": _version_tree(installation.version), "storage": installation.storage}),
        fallback=fallback,
    )


def _group(installation: Installation, name: str) -> Group:
    daemons = installation.daemons[name]
    started_with = {
        "version": _version_tree(installation.version),
        "settings": settings_of(installation, name),
        "daemons": daemons.model_dump(mode="json", exclude={"count", "settings"}),
        "user": installation.mesos.user,
    }
    return Group(name, daemons.count, _digest(started_with), installation.role_of(name) in LED)


def _version_tree(version: Version) -> Tree:
    return version.model_dump(mode="json", exclude_defaults=True)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def need_of(installation: Installation, group: str) -> Need:
    """Return what a daemon of a group needs of its host."""
    daemons = installation.daemons[group]
    ports = 1 if installation.role_of(group) in _WITHOUT_GRPC else 2
    return Need(daemons.cpus, daemons.mem, ports, frozenset(daemons.hosts), daemons.attributes)


def settings_of(installation: Installation, group: str) -> Tree:
    """Return the settings of the daemons of a group, without those that each one has of its own."""
    role, daemons = installation.role_of(group), installation.daemons[group]
    membership = installation.zookeeper.model_dump(mode="json", exclude_defaults=True)
    tree: Tree = {"membership": {"kind": "zookeeper", **membership}}
    if role in STORED:
        tree["storage"] = installation.storage
    if role == "hostmgr":
        tree["mesos"] = {"master": installation.mesos.master}
    tree = merged(merged(tree, installation.settings), daemons.settings)
    resolved: Tree = with_secrets(tree, installation.secrets)
    return resolved


def own_settings(
    installation: Installation, group: str, instance: str, ip: str, ports: tuple[int, ...]
) -> Tree:
    """Return the settings of one daemon, which listens at an address of its host unless told otherwise."""
    common = settings_of(installation, group)
    own: Tree = {"host": ip, "http_port": ports[0]}
    if installation.role_of(group) not in _WITHOUT_GRPC:
        own |= {"grpc_port": ports[1], "instance": instance, "advertise": ip}
    if installation.role_of(group) == "web" and "host" in common and "advertise" in common:
        del common["advertise"]
    return merged(own, common)


def store_settings(installation: Installation) -> Tree:
    """Return what `peloton-migrate` needs."""
    resolved: Tree = {"storage": with_secrets(installation.storage, installation.secrets)}
    return resolved


def as_yaml(tree: Tree) -> str:
    """Write settings as a daemon reads them."""
    return yaml.safe_dump(tree, sort_keys=True)


# Command lines.


def daemon_command(version: Version, role: RoleName) -> str:
    """Return the shell command that runs a daemon with the settings in the variable SETTINGS."""
    return _command(version, f"peloton-{role} -c")


def migrate_command(version: Version) -> str:
    """Return the shell command that brings the schema of the store up to date."""
    return _command(version, "peloton-migrate up -c")


def _command(version: Version, program: str) -> str:
    """Return a command of the POSIX shell, which becomes the program itself: signals reach it."""
    file = CONTAINER_SETTINGS if version.image else "settings.yaml"
    folder = "" if version.image else f"{shlex.quote(environment_of(version))}/bin/"
    lines = [
        "set -eu",
        *(_make_environment(version) if version.wheel else ()),
        "umask 077",
        f'printf %s "${SETTINGS}" > {file}',
        f"unset {SETTINGS}",
        f"exec {folder}{program} {file}",
    ]
    return "\n".join(lines)


def environment_of(version: Version) -> str:
    """Return the path of the virtual environment on the hosts."""
    if version.environment:
        return version.environment
    made_of = [version.wheel, version.sha256, version.python, *version.pip]
    return f"{version.environments}/{_digest(made_of)[:_DIGITS]}"


def _make_environment(version: Version) -> list[str]:
    """Return the lines that make the environment of a wheel where the host has none; one at a time."""
    place = shlex.quote(environment_of(version))
    check = []
    source = shlex.quote(version.wheel)
    if version.sha256:
        source = shlex.quote(
            f"{version.wheel}#sha256={version.sha256}" if "://" in version.wheel else version.wheel
        )
        if "://" not in version.wheel:
            check = [f"    echo {version.sha256}'  '{shlex.quote(version.wheel)} | sha256sum --check --quiet"]
    pip = " ".join(map(shlex.quote, version.pip))
    return [
        f"mkdir -p {shlex.quote(version.environments)}",
        f"if [ ! -e {place}/ready ]; then (",
        "  flock 9",
        f"  if [ ! -e {place}/ready ]; then",
        *check,
        f"    rm -rf {place}",
        f"    {shlex.quote(version.python)} -m venv {place}",
        f"    {place}/bin/pip install --quiet --disable-pip-version-check {pip} {source}",
        f"    touch {place}/ready",
        "  fi",
        f") 9> {place}.lock; fi",
    ]


def mounts(installation: Installation) -> Mapping[str, str]:
    """Return the files of hosts that a container has, read-only, at the same path: by name of the secret."""
    return {name: secret.file for name, secret in sorted(installation.secrets.items())}
