"""A cluster on this machine: bring it up, inspect it, stop or kill its components, take it down."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from minicluster.components import (
    API_SERVER,
    CASSANDRA,
    ETCD,
    KUBELET,
    LOOPBACK,
    ZOOKEEPER,
    Component,
    Ports,
    command,
    components,
    external_servers,
    storage_settings,
    zookeeper_servers,
)
from minicluster.credentials import ADMIN, CLIENT, https_context, make_credentials, remove_certificates
from minicluster.discovery import not_found_message
from minicluster.forked import ENCRYPTION, Program
from minicluster.launching import launch_all
from minicluster.layout import RECORD_FILE, Layout
from minicluster.mesos.agent.cleanup import kill_tasks
from minicluster.mesos.common.modes import PASSABLE
from minicluster.overview import Overview, Part, Status, read_overview, status_of, write_overview
from minicluster.ports import FreePorts, default_ports, is_free
from minicluster.prerequisites import fetch, make_tables, tell_isolation
from minicluster.processes import Process, load, save, uninterrupted
from minicluster.progress import Progress, silent
from minicluster.readiness import ReadinessWait
from minicluster.servers import kubernetes
from minicluster.settings import ClusterSettings
from peloton.config.loading import validated
from peloton.config.private import FILE, make_folder, write_private
from peloton.config.sources import Tree
from peloton.errors import InvalidArgument, NotFound, Refused, Unavailable

STOP_SECONDS = 20.0


class Cluster:
    """A cluster, whose state is in its folder. A lock in the folder admits one command at a time."""

    def __init__(self, directory: Path, timeout: float | None = None) -> None:
        """Wait for components for up to `timeout` seconds, or as long as `ReadinessWait` does."""
        self._timeout = timeout
        self.directory = directory.resolve()
        self.layout = Layout(self.directory)

    # Whole cluster.

    def up(self, settings: ClusterSettings, report: Progress = silent) -> None:
        """Start everything and wait until it answers. A cluster that already runs is left as it is.

        Raise Refused where it runs with other settings than those that are set explicitly.
        """
        if self._is_up(settings):  # before servers are downloaded
            report("already up")
            return
        fetch(settings, report)
        self._make_folders()
        with self._locked():
            if self._is_up(settings):  # by another command, meanwhile
                report("already up")
                return
            if self._exists() and (
                changed := differences(self._settings(), settings, ClusterSettings.model_fields)
            ):
                report(f"other settings than before: {changed}")
            self._kill_leftover_tasks()
            self._write_settings(settings)
            if settings.secure:
                make_credentials(self.layout, settings.agents_ask)
            else:
                remove_certificates(self.layout)
            tell_isolation(self.directory, settings, report)
            parts = self.components()
            self._require_ports(parts)
            try:
                self._start_in_order(parts, report)
            except BaseException:
                with uninterrupted():
                    self._stop_all(parts)
                raise

    def down(self, keep: bool = False, report: Progress = silent) -> None:
        """End every process, tasks included, and remove the folder (`keep`: leave data and logs)."""
        if not self._exists():
            report(f"no minicluster in {self.directory}")
            if self.directory.is_dir() and not any(self.directory.iterdir()):
                self.directory.rmdir()
            return
        with self._locked():
            self._stop_all(self.components(), report)
            if not keep:
                self._remove()

    def status(self) -> list[Status]:
        """Return the state of each component. Raise NotFound where the folder holds no cluster."""
        return self.overview().statuses()

    def overview(self) -> Overview:
        """Return what is told of it. Raise NotFound where the folder holds no cluster."""
        return read_overview(self.layout) or self._describe()

    def components(self) -> tuple[Component, ...]:
        """Return the components, in the order of starting."""
        return components(self._settings(), self.layout, self._recorded_ports())

    def zookeeper_servers(self) -> str:
        """Return the servers by which its daemons find each other; empty where they do by a folder."""
        return zookeeper_servers(self._settings(), self._recorded_ports())

    def urls(self) -> dict[str, str]:
        """Return the environment variables with which the CLI finds it: ZooKeeper, or the present leaders."""
        return self.overview().urls()

    @property
    def scheme(self) -> str:
        """Of the HTTP ports of the daemons and of the web UI."""
        return self.overview().scheme

    def web_addresses(self) -> list[str]:
        """Return where the web UI answers, HOST:PORT."""
        return self.overview().web_addresses()

    # Single components.

    def start(self, names: Sequence[str], changes: Tree | None = None, report: Progress = silent) -> None:
        """Start what does not run.

        `changes` (hostname, resources, attributes) are of one agent, and are kept.
        """
        with self._locked():
            if changes:
                self._change_agent(names, changes)
            parts = [part for part in self._named(names) if self._status(part).state != "running"]
            self._start_all(parts, report)

    def stop(self, names: Sequence[str], report: Progress = silent) -> None:
        """End components by SIGTERM, after some time by SIGKILL."""
        with self._locked():
            self._stop_all(self._named(names), report)

    def kill(self, names: Sequence[str]) -> None:
        """End components by SIGKILL."""
        with self._locked():
            for part in self._named(names):
                process = self._process(part)
                if process is not None:
                    process.signal(signal.SIGKILL)
                    process.wait(STOP_SECONDS)

    def log_file(self, name: str) -> Path:
        """Return a component's log. Raise InvalidArgument for an unknown name."""
        self._named([name])
        return self.layout.log_of(name)

    # Parts.

    def _exists(self) -> bool:
        return (self.layout.record).exists()

    def _make_folders(self) -> None:
        strangers = self.directory.is_dir() and any(self.directory.iterdir()) and not self._exists()
        if strangers and not (self.directory / ".lock").exists():
            raise Refused(f"{self.directory} is not empty and no minicluster's: give another --dir")
        try:
            for folder in (self.directory, self.layout.mesos):
                make_folder(folder, PASSABLE)
            for folder in (self.layout.log, self.layout.run, self.layout.conf):
                make_folder(folder)
        except OSError as error:
            raise Unavailable(f"{error.filename}: {error.strerror}") from None

    def _remove(self) -> None:
        try:
            shutil.rmtree(self.directory)
        except OSError as error:
            raise Unavailable(f"{self.directory} stays: {error.filename}: {error.strerror}") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self.directory.is_dir():
            raise NotFound(not_found_message(self.directory))
        handle = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE)
        with os.fdopen(handle, "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unavailable(
                    f"another minicluster command works in {self.directory}: try again when it is done"
                ) from None
            yield

    def _settings(self) -> ClusterSettings:
        if not self._exists():
            raise NotFound(not_found_message(self.directory))
        with self._readable():
            held = yaml.safe_load((self.layout.record).read_text())["cluster"]
        return validated(ClusterSettings, held, str(self.layout.record))

    def _ports(self) -> dict[str, tuple[int, int]]:
        with self._readable():
            held = yaml.safe_load((self.layout.record).read_text())["ports"]
            return {name: (http, grpc) for name, (http, grpc) in held.items()}

    def _recorded_ports(self) -> Ports:
        """Return the ports that were chosen when the cluster was created."""
        held = self._ports()

        def port(name: str, kind: str, index: int) -> tuple[int, int]:
            with self._readable():
                return held[name]

        return port

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Raise Refused where the record is not as this program writes it."""
        try:
            yield
        except (yaml.YAMLError, LookupError, TypeError, AttributeError, ValueError):
            raise Refused(
                f"{self.layout.record} is no record of a minicluster: end by hand what runs "
                f"(pids in {self.layout.run}), and remove the folder"
            ) from None

    def _write_settings(
        self, settings: ClusterSettings, ports: dict[str, tuple[int, int]] | None = None
    ) -> None:
        taken: dict[str, tuple[int, int]] = dict(ports or {})
        free = FreePorts(owner=self.layout.record)

        def choose(name: str, kind: str, index: int) -> tuple[int, int]:
            if name not in taken:
                default = default_ports(kind, index)
                taken[name] = (
                    default
                    if settings.ports == "default"
                    else (free.take(), free.take() if default[1] else 0)
                )
            return taken[name]

        components(settings, self.layout, choose)
        tree = {
            "cluster": settings.model_dump(mode="json"),
            "ports": {name: list(pair) for name, pair in taken.items()},
            "zookeeper": zookeeper_servers(settings, choose),
        }
        draft = self.directory / f".{RECORD_FILE}"
        write_private(draft, yaml.safe_dump(tree))
        draft.rename(self.layout.record)
        write_overview(self._describe())

    def _change_agent(self, names: Sequence[str], changes: Tree) -> None:
        settings = self._settings()
        parts = [part for part in self.components() if part.kind == "mesos-agent"]
        agents = {part.name: i for i, part in enumerate(parts[: len(settings.agents)])}
        if len(names) != 1 or names[0] not in agents:
            raise InvalidArgument("NAME", " ".join(names), f"one of {', '.join(agents)} when it is to change")
        if self._status(self._named(names)[0]).state == "running":
            raise Refused(f"{names[0]} runs: stop it before it comes back changed")
        own = list(settings.agents)
        own[agents[names[0]]] = own[agents[names[0]]].model_copy(update=changes)
        self._write_settings(settings.model_copy(update={"agents": tuple(own)}), self._ports())

    def _named(self, names: Sequence[str]) -> list[Component]:
        parts = {part.name: part for part in self.components()}
        if not names:
            return list(parts.values())
        for name in names:
            if name not in parts:
                raise InvalidArgument("NAME", name, f"one of {', '.join(parts)}")
        return [parts[name] for name in names]

    def _process(self, part: Component) -> Process | None:
        return load(self.layout.run_of(part.name))

    def _status(self, part: Component) -> Status:
        return status_of(self.layout, part.name, part.addresses)

    def _describe(self) -> Overview:
        settings, servers = self._settings(), self.zookeeper_servers()
        exports = {"PELOTON_MINICLUSTER_DIR": str(self.directory)}
        if settings.secure:
            certificate, key = self.layout.certificate_of(CLIENT)
            exports["BASIC_AUTH_CONFIG"] = str(self.layout.credentials_of(ADMIN))
            exports["PELOTON_CA_FILE"] = str(self.layout.authority)
            exports |= {"PELOTON_CERT_FILE": str(certificate), "PELOTON_KEY_FILE": str(key)}
        if settings.agents_ask:
            exports["PELOTON_AGENT_CA_FILE"] = str(self.layout.authority)
            exports["PELOTON_AGENT_AUTH"] = str(self.layout.agent_auth)
        return Overview(
            str(self.directory),
            "https" if settings.secure else "http",
            tuple(Part(part.name, part.kind, part.addresses) for part in self.components()),
            external_servers(settings),
            {**exports, "ZK_SERVERS": servers} if servers else exports,
            not servers,
        )

    def _runs(self, part: Component) -> bool:
        return self._status(part).state == "running"

    def _is_up(self, wanted: ClusterSettings) -> bool:
        """Return whether it runs. Raise Refused where it runs in part, or with other settings."""
        if not self._exists() or all(each.state != "running" for each in self.status()):
            return False
        self._require_whole()
        self._require_same(wanted)
        return True

    def _require_whole(self) -> None:
        lacking = [each.name for each in self.status() if each.state not in ("running", "given")]
        if lacking:
            raise Refused(
                f"the minicluster in {self.directory} is half up, {', '.join(lacking)} not running: "
                f"`peloton minicluster start {' '.join(lacking)}`, or `down` first"
            )

    def _require_same(self, wanted: ClusterSettings) -> None:
        if changed := differences(self._settings(), wanted, wanted.model_fields_set):
            raise Refused(
                f"the minicluster in {self.directory} runs with other settings: {changed}; "
                "`peloton minicluster down` ends it, another --dir leaves it"
            )

    def _require_ports(self, parts: Sequence[Component]) -> None:
        for part in parts:
            for port in (part.http, part.grpc, part.storage_port):
                if port and not is_free(port):
                    raise Unavailable(
                        f"{part.name}: port {LOOPBACK}:{port} is in use; `ports: free` in a --config FILE, "
                        "or --free-ports, takes others"
                    )

    def _start_in_order(self, parts: Sequence[Component], report: Progress) -> None:
        """Start all; where daemons need tables in Cassandra, create these before them."""
        if self._settings().storage.startswith(CASSANDRA):
            self._start_all([part for part in parts if not part.configured], report)
            storage = storage_settings(self._settings(), self.layout, self._recorded_ports())
            make_tables(storage, self.layout.storage, report, self._timeout)
            parts = [part for part in parts if part.configured]
        servers = [part for part in parts if part.kind in (ETCD, API_SERVER)]
        for part in servers:  # an API server ends without its etcd
            self._start_all([part], report)
            if part.kind == API_SERVER:
                folder = self.layout.work_of(part.name)
                kubernetes.write_kubeconfig(folder, part.http, self.layout.kubeconfig)
                kubernetes.make_namespace(folder, part.http)
        self._start_all([part for part in parts if part not in servers], report)

    def _start_all(self, parts: Sequence[Component], report: Progress) -> None:
        programs = [self._program(part) for part in parts]
        launch_all(
            programs,
            lambda name, process: save(process, self.layout.run_of(name)),
            ENCRYPTION if self._settings().secure else (),
        )
        self._wait_until_ready(parts, report)

    def _program(self, part: Component) -> Program:
        """Return how a component is started, and write its configuration."""
        layout = self.layout
        layout.ready_of(part.name).unlink(missing_ok=True)
        if part.configured:
            write_private(layout.conf_of(part.name), yaml.safe_dump(part.settings))
        return Program(part.name, self._command(part), str(layout.log_of(part.name)))

    def _command(self, part: Component) -> list[str]:
        return command(part, self.layout)

    def _wait_until_ready(self, parts: Sequence[Component], report: Progress) -> None:
        """Wait until each answers and the leaders lead. Raise Unavailable with what is wrong."""
        https = https_context(self.layout)
        servers = self.zookeeper_servers()
        ReadinessWait(self.layout, servers, self._runs, report, self._timeout, https=https).wait(parts)

    def _stop_all(self, parts: Sequence[Component], report: Progress = silent) -> None:
        """End components in the reverse order of starting, daemons together; then tasks that are left."""
        for kinds in (
            ("web", "archiver", "placement", "jobmgr", "resmgr", "hostmgr"),
            ("mesos-agent", KUBELET),
            ("mesos-master", API_SERVER, ZOOKEEPER, CASSANDRA),
            (ETCD,),
        ):
            group = [
                (part, process) for part in parts if part.kind in kinds and (process := self._process(part))
            ]
            for _, process in group:
                process.signal(signal.SIGTERM)
            for part, process in group:
                if not process.wait(STOP_SECONDS):
                    process.signal(signal.SIGKILL)
                    process.wait(STOP_SECONDS)
                self.layout.run_of(part.name).unlink(missing_ok=True)
                report(f"{part.name} ended")
        for part in parts:
            if part.kind in ("mesos-agent", KUBELET):
                kill_tasks(self.layout.work_of(part.name))

    def _kill_leftover_tasks(self) -> None:
        """Kill tasks that an earlier cluster in this folder left when it was killed."""
        for kind in ("mesos-agent", KUBELET):
            for work in self.layout.mesos.glob(f"{kind}*"):
                kill_tasks(work)


def differences(held: ClusterSettings, wanted: ClusterSettings, names: Iterable[str]) -> str:
    """Describe which of these settings differ, and how; empty where none does."""
    found = []
    for name in sorted(names):
        old, new = getattr(held, name), getattr(wanted, name)
        if old != new:
            short = isinstance(old, str) and isinstance(new, str)
            found.append(f"{name} is {old or 'none'}, not {new or 'none'}" if short else name)
    return ", ".join(found)
