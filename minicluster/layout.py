"""The files and folders of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RECORD_FILE = "cluster.yaml"
"""The file that makes a folder the folder of a minicluster."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Files and folders of the cluster in the folder `root`."""

    root: Path

    @property
    def record(self) -> Path:
        """Settings of the cluster, and the ports that were chosen for it."""
        return self.root / RECORD_FILE

    @property
    def overview(self) -> Path:
        """What is told of the cluster by commands that do not read its settings."""
        return self.root / "overview.json"

    @property
    def log(self) -> Path:
        """Folder of the components' logs."""
        return self.root / "log"

    @property
    def run(self) -> Path:
        """Folder of process records and ready files."""
        return self.root / "run"

    @property
    def conf(self) -> Path:
        """Folder of the daemons' configuration files."""
        return self.root / "conf"

    @property
    def membership(self) -> Path:
        """Folder by which daemons find each other without ZooKeeper."""
        return self.root / "membership"

    @property
    def database(self) -> Path:
        """File of the SQLite store."""
        return self.root / "peloton.db"

    @property
    def auth(self) -> Path:
        """Folder of the users, their credentials, and the keys of secrets."""
        return self.root / "auth"

    @property
    def users(self) -> Path:
        """File of users and roles."""
        return self.auth / "users.yaml"

    @property
    def certificates(self) -> Path:
        """Folder of the authority and the certificates of a cluster that is secure, and of no other."""
        return self.root / "certificates"

    @property
    def authority(self) -> Path:
        """The certificate of the authority."""
        return self.certificates / "ca.crt"

    def certificate_of(self, name: str) -> tuple[Path, Path]:
        """Return the certificate and the key of a kind of component, or of clients."""
        return self.certificates / f"{name}.crt", self.certificates / f"{name}.key"

    @property
    def secret_keys(self) -> Path:
        """The keys that encrypt the secrets of jobs in the store."""
        return self.auth / "secret-keys"

    @property
    def task_keys(self) -> Path:
        """The keys that sign the tokens of tasks."""
        return self.auth / "task-keys"

    @property
    def agent_credentials(self) -> Path:
        """Whom the agents of a secure cluster let in, as their `--credentials` take it."""
        return self.certificates / "agents.json"

    @property
    def agent_secret(self) -> Path:
        """The secret of the only principal there."""
        return self.certificates / "agents.secret"

    @property
    def agent_auth(self) -> Path:
        """The same principal, as `--agentAuth` takes it."""
        return self.certificates / "agents.yaml"

    @property
    def audit(self) -> Path:
        """What users have changed, a JSON line for each call."""
        return self.root / "audit.jsonl"

    def credentials_of(self, user: str) -> Path:
        """Return the file of a user's name and password, as `--basicAuthConfig` takes it."""
        return self.auth / f"{user}.yaml"

    @property
    def storage(self) -> Path:
        """Settings of the store, as `peloton-migrate` reads them."""
        return self.conf / "storage.yaml"

    @property
    def mesos(self) -> Path:
        """Folder of the work directories of Mesos and of the servers."""
        return self.root / "mesos"

    @property
    def kubeconfig(self) -> Path:
        """The file by which the own API server of Kubernetes is called."""
        return self.conf / "kubeconfig"

    def log_of(self, name: str) -> Path:
        """Return the log of a component."""
        return self.log / f"{name}.log"

    def run_of(self, name: str) -> Path:
        """Return the process record of a component."""
        return self.run / f"{name}.json"

    def ready_of(self, name: str) -> Path:
        """Return the file that a master or agent writes when it is ready."""
        return self.run / f"{name}.ready"

    def conf_of(self, name: str) -> Path:
        """Return the configuration file of a daemon."""
        return self.conf / f"{name}.yaml"

    def work_of(self, name: str) -> Path:
        """Return the work directory of a master, an agent or a server."""
        return self.mesos / name
