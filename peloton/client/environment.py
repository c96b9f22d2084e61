"""Settings of a client by the variables that the command line reads too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from peloton.client.agents import agents_by
from peloton.client.auth import Auth, BearerAuth, read_auth
from peloton.client.clusters import zookeeper_of
from peloton.client.discovery import Discovery, LocalDiscovery, UrlDiscovery, ZooKeeperDiscovery
from peloton.client.extensions import find_local_cluster
from peloton.client.task_identity import TOKEN_FILE, own_variables, task_auth
from peloton.client.tls import Tls
from peloton.config.agents import PLAIN

ROLES = ("JOBMGR", "RESMGR", "HOSTMGR")


def settings_from_environment(variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return arguments of PelotonClient for the cluster that the environment names.

    JOBMGR_URL, RESMGR_URL, HOSTMGR_URL, ZK_SERVERS, ZK_ROOT, CLUSTER_NAME and BASIC_AUTH_CONFIG are those of
    the command line; PELOTON_TOKEN is a bearer token, PELOTON_CA_FILE, PELOTON_CERT_FILE and PELOTON_KEY_FILE
    are for TLS, with ZK_TLS=1 that to ZooKeeper, too; PELOTON_AGENT_CA_FILE and PELOTON_AGENT_AUTH are for
    Mesos agents. Where it names no cluster, a minicluster that runs on this machine is taken, as by the
    command line, with what a call of it needs. Inside of a task that has a token (PELOTON_TOKEN_FILE) calls
    are the task's, unless another identity is given. Raises PelotonError for a value that is wrong.
    """
    given = {key: value for key, value in own_variables(variables).items() if value}
    servers = ",".join(given.get("ZK_SERVERS", "").split())
    if not servers and "CLUSTER_NAME" in given:
        servers = zookeeper_of(given["CLUSTER_NAME"])
    own = _minicluster(variables) if not servers and not any(f"{role}_URL" in given for role in ROLES) else {}
    found: dict[str, Any] = {
        "zk_servers": servers or None,
        "jm_url": given.get("JOBMGR_URL"),
        "rm_url": given.get("RESMGR_URL"),
        "hm_url": given.get("HOSTMGR_URL"),
        "zk_root": given.get("ZK_ROOT", "/peloton"),
        "auth": _auth(given),
        "tls": _tls(given),
    }
    agents = agents_by(given.get("PELOTON_AGENT_CA_FILE", ""), given.get("PELOTON_AGENT_AUTH", ""))
    if agents is not PLAIN:
        found["agents"] = agents
    if servers and given.get("ZK_TLS", "").lower() in ("1", "true"):
        found["discovery"] = _by_encrypted_zookeeper(found)
    return {**found, **{key: value for key, value in own.items() if not found.get(key)}}


def _by_encrypted_zookeeper(found: Mapping[str, Any]) -> Discovery:
    given = {role.lower(): found[f"{role[0].lower()}m_url"] for role in ROLES}
    urls = {role: url for role, url in given.items() if url}
    return UrlDiscovery(
        urls, ZooKeeperDiscovery(found["zk_servers"], found["zk_root"], tls=found["tls"] or Tls())
    )


def _minicluster(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return arguments for the minicluster that runs on this machine; none where none does."""
    running = find_local_cluster(variables)
    if running is None:
        return {}
    found: dict[str, Any] = {**running.identity()}
    if running.zookeeper:
        return {**found, "zk_servers": running.zookeeper}
    return {**found, "discovery": LocalDiscovery(running.membership)}


def _auth(given: Mapping[str, str]) -> Auth | None:
    if token := given.get("PELOTON_TOKEN"):
        return BearerAuth(token)
    if "BASIC_AUTH_CONFIG" in given:
        return read_auth(given["BASIC_AUTH_CONFIG"])
    if TOKEN_FILE in given and "JOBMGR_URL" in given:
        return task_auth(given[TOKEN_FILE], given["JOBMGR_URL"], _tls(given))
    return None


def _tls(given: Mapping[str, str]) -> Tls | None:
    files = [given.get(f"PELOTON_{part}_FILE", "") for part in ("CA", "CERT", "KEY")]
    return Tls(*files) if any(files) else None
