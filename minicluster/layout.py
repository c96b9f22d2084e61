"""Where a cluster keeps what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MARK = "cluster.yaml"
"""The file by which a folder is known as a minicluster's."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Files and folders of the cluster in the folder `root`."""

    root: Path

    @property
    def record(self) -> Path:
        """What the cluster consists of, and the ports that it took."""
        return self.root / MARK

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def conf(self) -> Path:
        return self.root / "conf"

    @property
    def membership(self) -> Path:
        return self.root / "membership"

    @property
    def database(self) -> Path:
        return self.root / "peloton.db"

    @property
    def storage(self) -> Path:
        """Settings of the store, as `peloton-migrate` reads them."""
        return self.conf / "storage.yaml"

    @property
    def mesos(self) -> Path:
        return self.root / "mesos"

    def log_of(self, name: str) -> Path:
        return self.log / f"{name}.log"

    def run_of(self, name: str) -> Path:
        return self.run / f"{name}.json"

    def ready_of(self, name: str) -> Path:
        return self.run / f"{name}.ready"

    def conf_of(self, name: str) -> Path:
        return self.conf / f"{name}.yaml"

    def work_of(self, name: str) -> Path:
        return self.mesos / name
