"""A Cassandra server of one node: real, small, empty, on free loopback ports.

Its data do not outlive a crash of the machine (no fsync for the system's own tables), only one of the
process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.maven import Broken, class_path, jars, java

VERSION = "5.0.6"
USERNAME = PASSWORD = "cassandra"
"""The superuser that a new server makes."""
HEAP = "512m"
LONGEST_START = 120.0
"""Seconds."""

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
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file>
    <encoder><pattern>%date{{ISO8601}} %-5level [%thread] %logger{{20}} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""


@dataclass(slots=True)
class CassandraServer:
    """One server process and its folder. May be stopped, killed, frozen and started again."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    username: str = ""
    """Empty where anyone is let in."""
    password: str = ""
    heap: str = HEAP
    quick: bool = True
    """Starts sooner and never becomes as fast as it could: for tests, not for benchmarks."""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int:
        """Raises Broken while the server does not run."""
        if self._process is None:
            raise Broken("the Cassandra server does not run")
        return self._process.pid

    def start(self) -> None:
        """Returns when the server answers. Raises Broken with the end of its log where it does not."""
        library = jars([f"org.apache.cassandra:cassandra-all:{VERSION}"])
        with (self.folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                _command(self, library), cwd=self.folder, stdout=output, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + LONGEST_START
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Broken(f"Cassandra did not start:\n{self._log_end()}")
            time.sleep(0.1)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """What the server's process has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _serves(self) -> bool:
        # The port opens when the server is whole, but the superuser is made a moment later.
        if self.username and "Created default superuser role" not in self._log():
            return False
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((self.host, self.port)) == 0

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        self._process = None

    def _log(self) -> str:
        log = self.folder / "system.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _log_end(self) -> str:
        output = (self.folder / "output.log").read_text(errors="replace")
        return (self._log() + output)[-4000:]


@contextmanager
def cassandra_server(
    folder: Path, *, authenticate: bool = True, quick: bool = True
) -> Iterator[CassandraServer]:
    """A running server with its files in `folder`, which it makes; they are removed at the end.

    Raises Missing without Java 17 or Maven, Broken where the server does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, storage_port = _free_ports(2)
    server = CassandraServer(folder, port=port, quick=quick)
    if authenticate:
        server.username, server.password = USERNAME, PASSWORD
    settings = _settings(folder, port, storage_port, authenticate)
    # JSON is YAML.
    (folder / "cassandra.yaml").write_text(json.dumps(settings, indent=1))
    (folder / "logback.xml").write_text(LOGBACK.format(file=folder / "system.log"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder / "data", ignore_errors=True)


def _settings(folder: Path, port: int, storage_port: int, authenticate: bool) -> dict[str, object]:
    data = folder / "data"
    return {
        "cluster_name": "peloton-tests",
        "num_tokens": 4,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "data_file_directories": [str(data / "data")],
        "commitlog_directory": str(data / "commitlog"),
        "saved_caches_directory": str(data / "saved_caches"),
        "hints_directory": str(data / "hints"),
        "cdc_raw_directory": str(data / "cdc_raw"),
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "1000ms",
        "commitlog_disk_access_mode": "mmap",
        "commitlog_total_space": "256MiB",
        "listen_address": "127.0.0.1",
        "storage_port": storage_port,
        "rpc_address": "127.0.0.1",
        "native_transport_port": port,
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": f"127.0.0.1:{storage_port}"}],
            }
        ],
        "auto_bootstrap": False,
        "auto_snapshot": False,
        "hinted_handoff_enabled": False,
        "paxos_variant": "v2",
        "authenticator": "PasswordAuthenticator" if authenticate else "AllowAllAuthenticator",
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


def _command(server: CassandraServer, library: Path) -> list[str]:
    folder = server.folder
    jamm = next(library.glob("jamm-*.jar"))
    properties = {
        "cassandra.config": (folder / "cassandra.yaml").as_uri(),
        "cassandra.storagedir": folder / "data",
        "cassandra.logdir": folder,
        "cassandra-foreground": "yes",
        "cassandra.ring_delay_ms": 0,
        "cassandra.skip_wait_for_gossip_to_settle": 0,
        "cassandra.superuser_setup_delay_ms": 0,
        "cassandra.auth_bcrypt_gensalt_log2_rounds": 4,
        # Changes of the schema do not wait for the disk.
        "cassandra.unsafesystem": "true",
        "logback.configurationFile": (folder / "logback.xml").as_uri(),
        "java.io.tmpdir": folder,
        "jdk.attach.allowAttachSelf": "true",
        "io.netty.tryReflectionSetAccessible": "true",
        "java.awt.headless": "true",
    }
    return [
        str(java()),
        f"-Xms{server.heap}",
        f"-Xmx{server.heap}",
        "-Xss512k",
        "-XX:+UseSerialGC",
        *(["-XX:TieredStopAtLevel=1"] if server.quick else []),
        "-XX:+ExitOnOutOfMemoryError",
        f"-javaagent:{jamm}",
        *(f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTS),
        *(f"--add-opens={name}=ALL-UNNAMED" for name in OPENS),
        *(f"-D{name}={value}" for name, value in properties.items()),
        "-cp",
        class_path(library),
        "org.apache.cassandra.service.CassandraDaemon",
    ]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
