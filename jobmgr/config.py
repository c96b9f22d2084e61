"""Settings of jobmgr."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from jobmgr.core.state.limits import Limits
from jobmgr.drivers.retry import Bucket
from peloton.config.base import Settings
from peloton.config.encryption import AgentSettings
from peloton.config.older_names import older_names
from peloton.config.settings import DaemonSettings
from peloton.config.sources import Variable
from peloton.model.priority import PriorityClass, PriorityClasses
from peloton.model.shard import SHARDS
from storage.config import StorageSettings


class RateSettings(Settings):
    """A rate limit."""

    rate: float = Field(0.0, ge=0)
    """Calls a second; 0: no limit."""
    burst: int = Field(100, ge=1)
    """Calls that may come at once."""

    def bucket(self) -> Bucket:
        """Return the rate limit for a driver."""
        return Bucket(self.rate, self.burst)


class TaskAccessSettings(Settings):
    """What tasks get that ask for access to Peloton: a token for their own job, and what calls need."""

    keys_file: Path | None = None
    """File, mode 0600, with the keys that sign the tokens: 32 random bytes in base64 on each line. The first
    signs, and all are accepted. Without it there are no tokens, and where callers are asked who they are jobs
    that want some are refused."""
    token_hours: float = Field(168.0, gt=0, le=8784)
    """Hours for which a token counts, unless its run ends before. After that it can only be renewed, as the
    Python client and the command line do by themselves."""
    addresses: str = ""
    """By which addresses tasks call the job managers, as HOST:PORT,…; empty: those that they have when the
    task is launched."""
    certificate_file: Path | None = None
    """A certificate for tasks to show, PEM, where `tls.client_certificates` asks callers for one. All tasks
    share it: in `auth.config_file` it should be nobody's."""
    key_file: Path | None = None
    """File with the key of `certificate_file`, mode 0600."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("a certificate_file needs a key_file, and a key_file a certificate_file")
        return self


class UsageSettings(Settings):
    """The account of what jobs have held and used."""

    labels: tuple[str, ...] = Field((), max_length=8)
    """Keys of labels of jobs by whose values accounts are kept apart, as they are by pool and owner. Each
    combination of values is a row for each hour."""
    interval: float = Field(60.0, ge=1)
    """Seconds between two looks at what all jobs have held and used."""


class PriorityClassSettings(Settings):
    """A name for a priority."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")
    """What jobs call it, in `sla.priorityClass`: up to 63 small letters, digits, `-`, `_` and `.`."""
    priority: int = Field(ge=0, le=2**31 - 1)
    """The priority of new jobs with this class. Jobs that exist keep theirs."""
    description: str = Field("", max_length=200)
    """What the class is for."""


class JobmgrSettings(DaemonSettings):
    """Settings of jobmgr."""

    storage: StorageSettings
    """Where jobs, tasks and their history are kept."""
    goal_state: Annotated[Limits, BeforeValidator(older_names(rows_per_cycle="rows_per_turn"))] = Limits()
    """Times after which tasks are reconciled, killed again and started over."""
    lanes: int = Field(4, ge=1, le=SHARDS)
    """Loops over which jobs are dealt by their ids. A job whose write cannot be made delays only its lane."""
    agents: AgentSettings = AgentSettings()
    """How Mesos agents are asked for the files of tasks."""
    task_access: TaskAccessSettings = TaskAccessSettings()
    """What tasks get that ask for access to Peloton."""
    usage: UsageSettings = UsageSettings()
    """The account of what jobs have held and used."""
    priority_classes: tuple[PriorityClassSettings, ...] = Field((), max_length=100)
    """Names of priorities for jobs. Give all job managers the same."""
    task_kill: RateSettings = RateSettings()
    """How many tasks are killed a second."""
    executor_shutdown: RateSettings = RateSettings()
    """How many executors are shut down a second whose tasks could not be killed."""
    event_days: float = Field(90.0, gt=0, le=90)
    """Days that events of ended runs are kept. Cassandra drops all events after 90 by itself; to drop them
    earlier, all events there are have to be read once a day."""

    enable_secrets: Annotated[bool, Variable("ENABLE_SECRETS")] = False
    """Whether jobs may have secrets. Where `storage.secret_keys_file` is set, the store has their contents
    encrypted; where it is not, as they are given."""
    images: bool = True
    """Whether the Mesos agents run tasks with images; if not, whoever creates a job with one is warned."""
    hosts_address: str = ""
    """The address of all hosts that tasks are told of each other, where the names of hosts do not resolve
    because all are one machine. Empty: they are told the names."""
    workflows_kept: int = Field(10, ge=1)
    """Workflows of each job that are kept, with their events. The oldest ones are deleted when one begins."""

    shown_jobs: int = Field(0, ge=0, le=1000)
    """/metrics shows the tasks of this number of active jobs job by job, the largest first; each job adds
    some ten series."""
    shared: bool = False
    """Whether all job managers that run share the work: each owns a part of the jobs, and answers all calls.
    Otherwise one leads and does all of it. Set it for all job managers or for none. With
    `tls.client_certificates`, where `auth.config_file` names certificates, those of the job managers are
    among them (`daemon: jobmgr`)."""
    job_type: Annotated[str, Variable("JOB_TYPE")] = ""
    """Logged, and of no effect: every job manager runs jobs of all types."""

    @model_validator(mode="after")
    def _tasks_can_call(self) -> Self:
        access = self.task_access
        if access.keys_file and self.auth.type == "NOOP":
            raise ValueError("task_access.keys_file is given, but auth.type is NOOP: nobody asks for tokens")
        if access.keys_file and self.tls.client_certificates and not access.certificate_file:
            raise ValueError(
                "task_access: tls.client_certificates is true, and tasks have no certificate to call with: "
                "certificate_file and key_file are needed"
            )
        return self

    @model_validator(mode="after")
    def _classes_differ(self) -> Self:
        names = [each.name for each in self.priority_classes]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"priority_classes: {twice} stands there twice")
        return self

    @property
    def classes(self) -> PriorityClasses:
        """Return the priority classes by name."""
        return {
            each.name: PriorityClass(each.name, each.priority, each.description)
            for each in self.priority_classes
        }

    @property
    def expiry(self) -> float:
        """Seconds from one look for old events to the next."""
        return 3600.0 if self.storage.kind == "sqlite" else 86400.0
