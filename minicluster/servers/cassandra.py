"""A Cassandra server of one node: real and small.

`Server.lasting` sets which of its data survive a kill.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from minicluster.servers.maven import class_path, jars, java

VERSION = "5.0.6"
ARTIFACTS = (f"org.apache.cassandra:cassandra-all:{VERSION}",)
HOST = "127.0.0.1"
MAIN = "org.apache.cassandra.service.CassandraDaemon"
OPTIONS, SUPPORTED = 0x05, 0x06
"""A request that needs no password, and its answer, in CQL's native protocol."""

EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.attach/sun.tools.attach",
)
OPENS = (
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang.reflect",
    "jdk.compiler/com.sun.tools.javac",
    "java.base/java.lang",
    "java.base/java.util",
)
"""As Cassandra's own conf/jvm17-server.options lists them."""

LOGBACK = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date{ISO8601} %-5level [%thread] %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"""


class Lasting(Enum):
    """What a server that was killed knows when it is started again."""

    NOTHING = "nothing"
    """Not even its tables, which are made sooner: for tests."""
    MOST = "most"
    """All but the last second's writes, as Cassandra comes: several servers hold each row elsewhere."""
    ALL = "all"
    """Each write waits for the disk."""


@dataclass(frozen=True, slots=True)
class Server:
    """Settings of one server."""

    folder: Path
    port: int
    """Port for clients."""
    storage_port: int
    """Port for other servers."""
    authenticate: bool = False
    """Require a password. A new server then creates the superuser `cassandra`, password `cassandra`."""
    heap: str = "512m"
    quick: bool = True
    """Start sooner, at the price of peak speed: for tests and short work."""
    lasting: Lasting = Lasting.MOST


def configure(server: Server) -> None:
    """Create the server's folder with its configuration."""
    server.folder.mkdir(parents=True, exist_ok=True)
    # JSON is YAML.
    (server.folder / "cassandra.yaml").write_text(json.dumps(_settings(server), indent=1))
    (server.folder / "logback.xml").write_text(LOGBACK)


def command(server: Server) -> list[str]:
    """Return the command line of the server, which logs to its output.

    Raise Missing without Java 17 or Maven, Broken where Maven fails.
    """
    return [
        str(java()),
        f"-Xms{server.heap}",
        f"-Xmx{server.heap}",
        *options(server, jars(ARTIFACTS)),
        MAIN,
    ]


def options(server: Server, library: Path) -> list[str]:
    """Return Java's options, except for the size of the heap. `library` has the jars."""
    jamm = next(library.glob("jamm-*.jar"))
    return [
        "-Xss512k",
        "-XX:+UseSerialGC",
        *(["-XX:TieredStopAtLevel=1"] if server.quick else []),
        "-XX:+ExitOnOutOfMemoryError",
        f"-javaagent:{jamm}",
        *(f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTS),
        *(f"--add-opens={name}=ALL-UNNAMED" for name in OPENS),
        *(f"-D{name}={value}" for name, value in _properties(server).items()),
        "-cp",
        class_path(library),
    ]


def serves(port: int) -> bool:
    """Return whether a server at this port of 127.0.0.1 answers clients."""
    try:
        with socket.create_connection((HOST, port), timeout=1) as probe:
            probe.sendall(bytes((4, 0, 0, 0, OPTIONS, 0, 0, 0, 0)))
            answer = probe.recv(9)
            return len(answer) > 4 and answer[4] == SUPPORTED
    except OSError:
        return False


def _properties(server: Server) -> dict[str, object]:
    folder = server.folder
    return {
        "cassandra.config": (folder / "cassandra.yaml").as_uri(),
        "cassandra.storagedir": folder / "data",
        "cassandra.logdir": folder,
        "cassandra-foreground": "yes",
        "cassandra.ring_delay_ms": 0,
        "cassandra.skip_wait_for_gossip_to_settle": 0,
        "cassandra.superuser_setup_delay_ms": 0,
        "cassandra.auth_bcrypt_gensalt_log2_rounds": 4,
        # Where true, changes of the schema are not flushed, and the commit log is read only after the schema.
        "cassandra.unsafesystem": str(server.lasting is Lasting.NOTHING).lower(),
        "logback.configurationFile": (folder / "logback.xml").as_uri(),
        "java.io.tmpdir": folder,
        "jdk.attach.allowAttachSelf": "true",
        "io.netty.tryReflectionSetAccessible": "true",
        "java.awt.headless": "true",
    }


def _settings(server: Server) -> dict[str, object]:
    data = server.folder / "data"
    return {
        "cluster_name": "peloton",
        "num_tokens": 4,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "data_file_directories": [str(data / "data")],
        "commitlog_directory": str(data / "commitlog"),
        "saved_caches_directory": str(data / "saved_caches"),
        "hints_directory": str(data / "hints"),
        "cdc_raw_directory": str(data / "cdc_raw"),
        **_commit_log(server.lasting),
        "commitlog_disk_access_mode": "mmap",
        "commitlog_total_space": "256MiB",
        "listen_address": HOST,
        "storage_port": server.storage_port,
        "rpc_address": HOST,
        "native_transport_port": server.port,
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": f"{HOST}:{server.storage_port}"}],
            }
        ],
        "auto_bootstrap": False,
        "auto_snapshot": False,
        "hinted_handoff_enabled": False,
        "paxos_variant": "v2",
        "authenticator": "PasswordAuthenticator" if server.authenticate else "AllowAllAuthenticator",
        "authorizer": "AllowAllAuthorizer",
        "role_manager": "CassandraRoleManager",
        "concurrent_reads": 16,
        "concurrent_writes": 16,
        "concurrent_compactors": 1,
        "key_cache_size": "16MiB",
        "file_cache_size": "64MiB",
        "memtable_heap_space": "128MiB",
        "memtable_offheap_space": "64MiB",
    }


def _commit_log(lasting: Lasting) -> dict[str, str]:
    """Return when the log is synchronized: a server that was killed reads nothing that came later."""
    if lasting is Lasting.ALL:
        return {"commitlog_sync": "batch"}
    return {"commitlog_sync": "periodic", "commitlog_sync_period": "1000ms"}
