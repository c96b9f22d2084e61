"""What a task is told of others: variables of its command, and files that its command begins with writing.

The files cannot come another way to every agent: Mesos fetches from servers only, and puts files of secrets,
which nobody may write to, where an agent is set up for that and docker does not run the task. So a shell
writes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobmgr.core.task.rendezvous import MEMBERS, PART
from peloton.api.v0.task import task_pb2
from peloton.model.workload import Framework
from peloton.wire.taskconfig import is_run_by_docker

_HOSTFILES = (
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
    "HYDRA_HOST_FILE",
    "I_MPI_HYDRA_HOST_FILE",
)
"""Variables by which Open MPI to 4 and from 5 on, MPICH, and Intel's MPI find the hosts."""
_WRITE_MEMBERS = """\
PELOTON_MEMBERS_FILE="${MESOS_SANDBOX:-$PWD}/peloton-members"; export PELOTON_MEMBERS_FILE
(set -f; IFS=,; printf '%s\\n' LIST) >"$PELOTON_MEMBERS_FILE" || exit 1
"""
_WRITE_HOSTS = """\
PELOTON_HOSTFILE="${MESOS_SANDBOX:-$PWD}/peloton-hostfile"; export PELOTON_HOSTFILE
(set -f; IFS=,; for member in LIST; do printf '%s\\n' "${member%:*}"; done) >"$PELOTON_HOSTFILE" || exit 1
"""


def tell(config: task_pb2.TaskConfig, told: Mapping[str, str], framework: Framework) -> None:
    """Put variables before those of the user, which count, and have the shell write the files."""
    variables = config.command.environment.variables
    own = list(variables)
    del variables[:]
    for name, value in told.items():
        variables.add(name=name, value=value)
    variables.extend(own)
    parts = [name for name in told if name == MEMBERS or name.startswith(PART)]
    if parts:
        _begin_with(config, _script(parts, framework))


def _script(parts: list[str], framework: Framework) -> str:
    listed = "".join(f"${{{name}}}" for name in parts)
    script = _WRITE_MEMBERS
    if framework is Framework.MPI:
        script += _WRITE_HOSTS
        script += "".join(f'export {name}="${{{name}:-$PELOTON_HOSTFILE}}"\n' for name in _HOSTFILES)
    script = script.replace("LIST", listed)
    return script if parts == [MEMBERS] else f"{script}unset {' '.join(parts)}\n"


def _begin_with(config: task_pb2.TaskConfig, script: str) -> None:
    """Run a script before the command, unless an image alone knows what is run."""
    command = config.command
    if command.shell:
        command.value = script + command.value
        return
    if not command.value or is_run_by_docker(config):
        return
    arguments = ["sh", "-c", f'{script}exec "$0" "$@"', command.value, *command.arguments[1:]]
    command.value = "/bin/sh"
    command.ClearField("arguments")
    command.arguments.extend(arguments)
