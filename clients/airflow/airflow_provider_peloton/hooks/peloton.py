"""The hook: clients of the cluster that a connection names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseHook, Connection

from peloton.client import AsyncPelotonClient, PelotonClient
from peloton.client.auth import BasicAuth, BearerAuth
from peloton.client.environment import settings_from_environment
from peloton.client.tls import Tls
from peloton.errors import PelotonError

CLIENT_NAME = "airflow"
EXTRAS = frozenset(
    {"resource_manager", "zk_servers", "zk_root", "ca_file", "cert_file", "key_file", "token", "web_url"}
)
DEFAULT_PORTS = {"jobmgr": 5392, "resmgr": 5394}


class PelotonHook(BaseHook):
    """Makes clients of Peloton.

    The connection's `host` has the addresses of the job managers, with commas between them, and its extra
    field `resource_manager` those of the resource managers; or `zk_servers` has the servers of ZooKeeper. A
    connection that has neither is of the cluster that the environment of Airflow names.

    :param peloton_conn_id: the id of the connection
    """

    conn_name_attr = "peloton_conn_id"
    default_conn_name = "peloton_default"
    conn_type = "peloton"
    hook_name = "Peloton"

    def __init__(self, peloton_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.peloton_conn_id = peloton_conn_id
        self._connection: Connection | None = None

    def get_conn(self) -> PelotonClient:
        """Return a blocking client, which the caller closes. Raises ValueError, PelotonError."""
        if self._connection is None:
            self._connection = self.get_connection(self.peloton_conn_id)
        return PelotonClient(CLIENT_NAME, **client_settings(self._connection))

    async def aget_conn(self) -> AsyncPelotonClient:
        """Return a client for asyncio, which the caller closes. Raises ValueError, PelotonError."""
        if self._connection is None:
            self._connection = await self.aget_connection(self.peloton_conn_id)
        return AsyncPelotonClient(CLIENT_NAME, **client_settings(self._connection))

    def job_url(self, job_id: str) -> str:
        """Return where a browser shows a job; empty where the connection has no `web_url`."""
        if self._connection is None:
            self._connection = self.get_connection(self.peloton_conn_id)
        root = str(self._connection.extra_dejson.get("web_url") or "").rstrip("/")
        return f"{root}/jobs/{job_id}" if root else ""

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the managers of the cluster answer, and what is wrong otherwise."""
        try:
            with self.get_conn() as client:
                client.jobs.pool_id("/")
        except (ValueError, PelotonError) as error:
            return False, str(error)
        return True, "The cluster answers."


def client_settings(connection: Connection) -> dict[str, Any]:
    """Return the arguments of a client. Raises ValueError for a connection that is wrong."""
    extra = {key: value for key, value in connection.extra_dejson.items() if value not in (None, "")}
    if unknown := sorted(extra.keys() - EXTRAS):
        names = ", ".join(sorted(EXTRAS))
        raise ValueError(
            f"connection {connection.conn_id}: extra fields {', '.join(unknown)}; known are {names}"
        )
    addressed = bool(connection.host or "zk_servers" in extra)
    found = _addresses(connection, extra) if addressed else settings_from_environment()
    if "token" in extra:
        found["auth"] = BearerAuth(extra["token"])
    elif connection.login:
        found["auth"] = BasicAuth(connection.login, connection.password or "")
    files = [str(extra.get(f"{part}_file", "")) for part in ("ca", "cert", "key")]
    if any(files):
        found["tls"] = Tls(*files)
    return found


def _addresses(connection: Connection, extra: Mapping[str, Any]) -> dict[str, Any]:
    resmgr = str(extra.get("resource_manager", ""))
    if "zk_servers" not in extra and not resmgr:
        raise ValueError(
            f"connection {connection.conn_id}: resource_manager is missing: it has the addresses of the "
            "resource managers, where those of the job managers are given"
        )
    port = connection.port or DEFAULT_PORTS["jobmgr"]
    found = {
        "jm_url": with_ports(connection.host or "", port) or None,
        "rm_url": with_ports(resmgr, DEFAULT_PORTS["resmgr"]) or None,
        "zk_servers": extra.get("zk_servers"),
    }
    return {**found, **({"zk_root": extra["zk_root"]} if "zk_root" in extra else {})}


def with_ports(addresses: str, port: int) -> str:
    """Return addresses with commas between them, those without a port with this one."""
    given = [address.strip() for address in addresses.split(",") if address.strip()]
    return ",".join(each if each.rpartition(":")[2].isdigit() else f"{each}:{port}" for each in given)
