"""Settings of hostmgr."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from hostmgr.core.filter import Ranking
from hostmgr.core.launches import LaunchPolicy
from hostmgr.core.table import CONCURRENT_LAUNCHES
from peloton.config.settings import DaemonSettings, Settings
from peloton.config.sources import Variable
from peloton.errors import PelotonError
from peloton.mesos.detector import parse_master
from storage.config import StorageSettings

BinPacking = Literal["FIRST_FIT", "DEFRAG", "LOAD_AWARE"]


class TlsSettings(Settings):
    """TLS to the Mesos master, whose certificate must be for the hostname that it goes by. PEM files."""

    enabled: bool = False
    """Whether the master is spoken to by TLS."""
    ca_file: Path | None = None
    """Certificates of the authorities that are trusted; the system's are without it."""
    certificate_file: Path | None = None
    """For masters that require authentication."""
    key_file: Path | None = None
    """Of the certificate, where its file does not hold the key too."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if not self.enabled and (self.ca_file or self.certificate_file or self.key_file):
            raise ValueError("tls: files are named, but enabled is not true")
        if self.key_file and not self.certificate_file:
            raise ValueError("tls: a key_file needs a certificate_file")
        return self


class MesosSettings(Settings):
    """The Mesos master, and who hostmgr is there."""

    master: Annotated[str, Variable("MESOS_MASTER"), Variable("MESOS_ZK_PATH")] = "127.0.0.1:5050"
    """HOST:PORT, or zk://HOST:PORT,HOST:PORT/PATH for the one that leads among several."""
    encoding: Literal["protobuf", "json"] = "protobuf"
    """Of what is sent to the master and comes from it."""
    user: str = "root"
    """The user of the framework, as whom tasks run."""
    name: str = "Peloton"
    """The framework's name in Mesos."""
    role: str = "peloton"
    """The role whose offers are taken; resources reserved for it are ours."""
    principal: str = "peloton"
    """As whom the framework subscribes, reserves and authenticates."""
    secret_file: Annotated[Path | None, Variable("MESOS_SECRET_FILE")] = None
    """Holds the principal's secret, for Basic authentication; none is used without it."""
    tls: TlsSettings = TlsSettings()
    """Whether and how the connection is encrypted."""
    failover_timeout: float = Field(6e7, ge=0)
    """Seconds that the master keeps the tasks while no hostmgr is there."""
    gpu_resources: bool = True
    """Whether hosts with GPUs are offered: Mesos withholds them from others."""
    operator_timeout: float = Field(10.0, gt=0)
    """Seconds that a call of the master's operator API may take."""
    agents_interval: float = Field(10.0, gt=0)
    """Seconds between reads of the master's map of agents."""
    max_record_bytes: int = Field(64 * 1024 * 1024, ge=1024)
    """Bytes that one event from the master has at most."""

    @field_validator("master")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        try:
            parse_master(value)
        except PelotonError as error:
            raise ValueError(str(error)) from None
        return value


class ReconcileSettings(Settings):
    """Seconds, unless stated otherwise."""

    interval: float = Field(1800.0, gt=0)
    """Between reconciliations, alternately explicit and implicit."""
    second_look: float = Field(60.0, gt=0)
    """A further explicit reconciliation after each subscription, for what was too young for the first."""
    launch_grace: float = Field(30.0, ge=0)
    """A LAUNCHED task is not reconciled for so long: its ACCEPT may be on the way."""
    agent_reregister: float = Field(600.0, ge=0)
    """How long agents may take to come back to a new master."""
    batch: int = Field(1000, ge=1, le=10_000)
    """Tasks a call."""


class LaunchSettings(Settings):
    """How much is launched on a host at a time, and when it is passed over."""

    concurrent: int = Field(CONCURRENT_LAUNCHES, ge=1)
    """Runs of one host that may be LAUNCHED or STARTING at a time; a gang of several tasks may exceed it."""
    failures: int = Field(3, ge=1)
    """Launches that fail on a host for reasons of its own, none starting between them, before it is passed
    over."""
    first_pause: float = Field(30.0, gt=0)
    """Seconds for which a host is passed over; doubled each time until something starts there."""
    longest_pause: float = Field(600.0, gt=0)
    """Longest time for which it is."""

    @property
    def policy(self) -> LaunchPolicy:
        """Return these settings as the core takes them."""
        return LaunchPolicy(self.concurrent, self.failures, self.first_pause, self.longest_pause)


class HostmgrSettings(DaemonSettings):
    """Settings of hostmgr."""

    mesos: MesosSettings = MesosSettings()
    """Which master, and as whom."""
    storage: StorageSettings
    """Where the framework's id is kept."""
    reconcile: ReconcileSettings = ReconcileSettings()
    """When the states of tasks are requested from Mesos."""
    launches: LaunchSettings = LaunchSettings()
    """How much is launched on a host at a time, and when it is passed over."""
    bin_packing: Annotated[BinPacking, Variable("BIN_PACKING")] = "FIRST_FIT"
    """Order in which matching hosts are claimed."""
    enable_revocable_resources: Annotated[bool, Variable("ENABLE_REVOCABLE_RESOURCES")] = True
    """Whether revocable resources are offered to revocable tasks."""
    scarce_resource_types: Annotated[str, Variable("SCARCE_RESOURCE_TYPES")] = "GPU"
    """Comma-separated; hosts that have them take only tasks that request some. GPU is the only kind known."""
    placing_seconds: float = Field(300.0, gt=0)
    """How long a claim lasts."""
    client_placing_seconds: float = Field(30.0, gt=0)
    """How long a claim lasts whose caller is no daemon; at most as long as the others."""
    claim_grace: float = Field(10.0, ge=0)
    """Seconds after a new subscription in which a launch waits for its host to be offered again."""
    event_ring: int = Field(100_000, ge=16)
    """Events that are held for jobmgr and resmgr."""

    @property
    def ranking(self) -> Ranking:
        """Return the order in which hosts are offered."""
        return Ranking(self.bin_packing)

    @property
    def scarce_gpu(self) -> bool:
        """Return whether hosts with GPUs take only tasks that request some."""
        return "GPU" in (kind.strip().upper() for kind in self.scarce_resource_types.split(","))
