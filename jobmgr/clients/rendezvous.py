"""What a task is told of others: variables of its command, and files of its sandbox.

The files cannot come one way to every agent: Mesos fetches from servers only, and puts files of secrets,
which nobody may write to, where an agent is set up for that and docker does not run the task. So a shell
writes them before the command. An image may have no shell, and its entry point is to stay: there our agents
write the files, which a label asks for.
"""

from __future__ import annotations

from collections.abc import Mapping

from peloton.api.v0.task import task_pb2
from peloton.model.members import HOSTFILE, MEMBERS, MEMBERS_FILE, part_names
from peloton.model.system_labels import HOSTFILE_LABEL, MEMBERS_LABEL
from peloton.model.workload import Framework
from peloton.wire.taskconfig import has_image

_HOSTFILES = (
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
    "HYDRA_HOST_FILE",
    "I_MPI_HYDRA_HOST_FILE",
)
"""Variables by which Open MPI to 4 and from 5 on, MPICH, and Intel's MPI find the hosts."""
_WRITE_MEMBERS = f"""\
PELOTON_MEMBERS_FILE="${{MESOS_SANDBOX:-$PWD}}/{MEMBERS_FILE}"; export PELOTON_MEMBERS_FILE
(set -f; IFS=,; printf '%s\\n' LIST) >"$PELOTON_MEMBERS_FILE" || exit 1
"""
_WRITE_HOSTS = f"""\
PELOTON_HOSTFILE="${{MESOS_SANDBOX:-$PWD}}/{HOSTFILE}"; export PELOTON_HOSTFILE
(set -f; IFS=,; for member in LIST; do printf '%s\\n' "${{member%:*}}"; done) >"$PELOTON_HOSTFILE" || exit 1
"""


def tell(config: task_pb2.TaskConfig, told: Mapping[str, str], framework: Framework) -> None:
    """Put variables before those of the user, which count, and have the files written."""
    variables = config.command.environment.variables
    own = list(variables)
    del variables[:]
    for name, value in told.items():
        variables.add(name=name, value=value)
    variables.extend(own)
    parts = part_names(told) or [name for name in told if name == MEMBERS]
    if not parts:
        return
    if _has_own_start(config):
        _ask_agent(config, framework)
    else:
        _begin_with(config, _script(parts, framework))


def _has_own_start(config: task_pb2.TaskConfig) -> bool:
    """Return whether a command cannot begin with a shell: an image, which may have none, is run as it is."""
    return not config.command.shell and (not config.command.value or has_image(config))


def _ask_agent(config: task_pb2.TaskConfig, framework: Framework) -> None:
    config.labels.add(key=MEMBERS_LABEL, value="PELOTON_MEMBERS_FILE")
    if framework is Framework.MPI:
        config.labels.add(key=HOSTFILE_LABEL, value=",".join(("PELOTON_HOSTFILE", *_HOSTFILES)))


def _script(parts: list[str], framework: Framework) -> str:
    listed = "".join(f"${{{name}}}" for name in parts)
    script = _WRITE_MEMBERS
    if framework is Framework.MPI:
        script += _WRITE_HOSTS
        script += "".join(f'export {name}="${{{name}:-$PELOTON_HOSTFILE}}"\n' for name in _HOSTFILES)
    script = script.replace("LIST", listed)
    return script if parts == [MEMBERS] else f"{script}unset {' '.join(parts)}\n"


def _begin_with(config: task_pb2.TaskConfig, script: str) -> None:
    """Run a script before the command."""
    command = config.command
    if command.shell:
        command.value = script + command.value
        return
    arguments = ["sh", "-c", f'{script}exec "$0" "$@"', command.value, *command.arguments[1:]]
    command.value = "/bin/sh"
    command.ClearField("arguments")
    command.arguments.extend(arguments)
