"""The process that tasks are forked from, and their supervisors: ``python -I -S supervisor.py FD WORK_DIR``.

It serves one agent by FD, a socket that keeps messages apart. Each message brings the end of such a socket,
for which it forks a supervisor. It does nothing else, has one thread, and ends when the agent does.

A supervisor works through its agent's orders, one run at a time: it starts the task in a session of its own,
waits, ends what the task left behind in its process group, and writes how it ended. It outlives the agent,
which finds it again by the record, for as long as its task runs. An order is the path of the run's claim, a
file that holds its specification. The supervisor sends ``pid N`` once, then of each order ``started`` and
``ended OUTCOME``, or ``failed TEXT`` where the task never began.

The process that renames the claim to the process record may run the task: there is one claim, so no run is
started twice, whatever becomes of the agent or of this process meanwhile. What the agent has taken back
cannot begin.

The specification is a marshalled dictionary: file (looked for on env's PATH), argv, env, cwd, stdout, stderr,
container, pid_file, exit_file; and, or None: uid, gid, data_limit (bytes), cgroup (directory), after (argv to
run at the end; after_json is its JSON).

Every fork of a supervisor copies what is in memory, so this imports next to nothing. Tasks are not forked but
spawned: posix_spawn copies nothing, and costs this process half of what subprocess does, which only a task of
another user needs.
"""

# ruff: noqa: PTH104, PTH106, PTH118, PTH120

import _signal as signal  # type: ignore[import-not-found]
import _socket
import errno
import gc
import marshal
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Spec = dict[str, Any]

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
"""Signals that must not end a supervisor before its task."""
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that a task must not inherit as ignored."""
OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND
LONGEST_MESSAGE = 16384
FAILURE = 512
"""Bytes of a reason why a task never began."""
NOT_EXECUTED = 1 << 8
"""The wait status of a task whose command cannot be executed: it exits with 1, as Mesos' executor does."""


def start_of(pid: "int | str") -> str:
    """Return when a process started, in clock ticks since boot."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[19]


def overwrite(path: str, text: str, name: str) -> None:
    """Write over a file that is there, and rename it: it appears under its new name as a whole."""
    data = text.encode()
    fd = os.open(path, os.O_WRONLY)
    if os.write(fd, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    os.ftruncate(fd, len(data))
    os.close(fd)
    os.rename(path, name)


class Limited:
    """While this is entered, what the supervisor starts is under the task's limits from its beginning."""

    def __init__(self, spec: "Spec") -> None:
        self.cgroup: str | None = spec["cgroup"]
        self.data_limit: int | None = spec["data_limit"]
        self.own_limits = resource.getrlimit(resource.RLIMIT_DATA)

    def __enter__(self) -> None:
        """Put this process under the limits. Raise OSError."""
        if self.cgroup:
            join(self.cgroup)
        if self.data_limit:  # the soft limit alone: this process could not raise the hard one again
            resource.setrlimit(resource.RLIMIT_DATA, (self.data_limit, self.own_limits[1]))

    def __exit__(self, *_: object) -> None:
        """Free this process of them. Raise OSError."""
        if self.data_limit:
            resource.setrlimit(resource.RLIMIT_DATA, self.own_limits)
        if self.cgroup:
            join(os.path.dirname(os.path.dirname(self.cgroup)))


def join(cgroup: str) -> None:
    """Move this process into a cgroup."""
    with open(os.path.join(cgroup, "cgroup.procs"), "w") as file:
        file.write("0")


def start_task(spec: "Spec") -> int:
    """Start the task in a session of its own, its output in the sandbox; return its pid. Raise OSError."""
    with Limited(spec):
        pid = spawn(spec) if spec["uid"] is None else spawn_as(spec)
    if spec["data_limit"]:  # it may not raise its limit
        resource.prlimit(pid, resource.RLIMIT_DATA, (spec["data_limit"], spec["data_limit"]))
    return pid


def spawn(spec: "Spec") -> int:
    """Start the task as this process' user. Raise OSError."""
    files = [(os.POSIX_SPAWN_OPEN, fd, spec[to], OUTPUT, 0o644) for fd, to in ((1, "stdout"), (2, "stderr"))]
    os.chdir(spec["cwd"])  # a task is spawned where its supervisor is
    try:
        return first_found(
            spec,
            lambda path: os.posix_spawn(
                path, spec["argv"], spec["env"], file_actions=files, setsid=True, setsigdef=IGNORED_BY_PYTHON
            ),
        )
    finally:
        os.chdir("/")


def first_found(spec: "Spec", start: "Callable[[str], int]") -> int:
    """Start the task's file, or the first of its name on the task's PATH. Raise OSError."""
    file = spec["file"]
    folders = [""] if os.path.dirname(file) else os.get_exec_path(spec["env"])
    refused: OSError | None = None
    for folder in folders:
        try:
            return start(os.path.join(folder, file))
        except (FileNotFoundError, NotADirectoryError) as error:
            refused = refused or error
        except PermissionError as error:
            refused = error
    raise refused or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)


def spawn_as(spec: "Spec") -> int:
    """Start the task as another user. Raise OSError."""
    import subprocess

    with (
        open(os.open(spec["stdout"], OUTPUT, 0o644), "wb", buffering=0) as stdout,
        open(os.open(spec["stderr"], OUTPUT, 0o644), "wb", buffering=0) as stderr,
    ):
        task = subprocess.Popen(
            spec["argv"],
            executable=spec["file"],
            env=spec["env"],
            cwd=spec["cwd"],
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            user=spec["uid"],
            group=spec["gid"],
            extra_groups=(),
        )
    task.returncode = 0  # it is waited for by its pid, not by this object
    return task.pid


def redirect(spec: "Spec") -> None:
    """Send this process' standard error to the sandbox."""
    fd = os.open(spec["stderr"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(fd, 2)
    os.close(fd)


def oom_killed(spec: "Spec") -> bool:
    """Return whether the kernel killed something in the task's cgroup for want of memory."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            with open(os.path.join(spec["cgroup"] or "/nonexistent", name)) as file:
                counts = dict(line.split() for line in file if len(line.split()) == 2)
        except OSError:
            continue
        return int(counts.get("oom_kill", "0")) > 0
    return False


def end_group(pid: int) -> None:
    """Kill what is left of the task's process group; its leader is dead but not yet reaped, so it is ours."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def clean_up(spec: "Spec") -> None:
    """Remove the container and the cgroup."""
    if spec["after"]:
        pid = os.fork()
        if pid == 0:
            try:
                os.execvp(spec["after"][0], spec["after"])
            finally:
                os._exit(1)
        os.waitpid(pid, 0)
    if spec["cgroup"]:
        try:
            os.rmdir(spec["cgroup"])
        except OSError:
            return


class Supervisor:
    """One supervisor: what stays the same from run to run."""

    def __init__(self, agent: int) -> None:
        """``agent``: the socket to the agent."""
        self.agent = agent
        self.pid = os.getpid()
        self.start = start_of("self")

    def send(self, message: bytes) -> None:
        """Send to the agent, if there is one: a later agent reads the record."""
        try:
            os.write(self.agent, message)
        except OSError:
            pass

    def next_order(self) -> bytes:
        """Wait for an order; empty when the agent is gone."""
        try:
            return os.read(self.agent, LONGEST_MESSAGE)
        except ConnectionResetError:
            return b""

    def work(self) -> None:
        """Take orders until the agent is gone."""
        self.send(b"pid %d" % self.pid)
        while order := self.next_order():
            claim = os.fsdecode(order)
            try:
                with open(claim, "rb") as file:
                    spec = marshal.load(file)
                overwrite(claim, self.record(spec), spec["pid_file"])
            except (OSError, EOFError, ValueError, TypeError) as error:
                self.send(b"failed " + str(error).encode()[:FAILURE])
                continue
            try:
                self.run(spec)
            except BaseException:
                redirect(spec)  # the traceback goes to the task's stderr
                raise

    def run(self, spec: "Spec") -> None:
        """Run a claimed task, wait for its end and write it down."""
        try:
            pid = start_task(spec)
        except OSError as error:
            with open(spec["stderr"], "a") as file:
                file.write(f"Failed to execute command '{spec['file']}': {error.strerror}\n")
            self.send(b"started")
            self.end(spec, NOT_EXECUTED, 0)
            return
        overwrite(spec["pid_file"], self.record(spec, pid), spec["pid_file"])
        self.send(b"started")
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        end_group(pid)
        _, status, usage = os.wait4(pid, 0)
        self.end(spec, status, usage.ru_maxrss)

    def end(self, spec: "Spec", status: int, max_rss_kb: int) -> None:
        """Write down how the task ended, and tell it."""
        oom = "true" if oom_killed(spec) else "false"
        clean_up(spec)
        fields = f'"status": {status}, "max_rss_kb": {max_rss_kb}, "oom": {oom}'
        outcome = f'{{{fields}, "data_limit": {spec["data_limit"] or "null"}}}'
        overwrite(spec["pid_file"], outcome, spec["exit_file"])
        self.send(b"ended " + outcome.encode())

    def record(self, spec: "Spec", task: int | None = None) -> str:
        """Describe, as JSON, which processes there are; ``task`` is the task's pid once it has begun."""
        known = [f'"supervisor": {{"pid": {self.pid}, "start": "{self.start}"}}']
        if task is not None:
            known.append(f'"task": {{"pid": {task}, "start": "{start_of(task)}"}}')
        fields = [f'"container": "{spec["container"]}"', f'"after": {spec["after_json"]}', *known]
        return "{" + ", ".join(fields) + "}"


def fork_supervisors(channel: int) -> "int | None":
    """Fork a supervisor for each socket that comes; return the socket in the supervisor, None at the end."""
    requests = _socket.socket(fileno=channel)
    while True:
        data, sockets, _, _ = requests.recvmsg(1, _socket.CMSG_LEN(4), _socket.MSG_CMSG_CLOEXEC)
        if not data:
            return None
        agent = int.from_bytes(sockets[0][2], sys.byteorder)
        try:
            pid = os.fork()
        except OSError as error:
            os.write(agent, b"failed " + str(error).encode()[:FAILURE])
            pid = -1
        if pid == 0:
            requests.close()
            return agent
        os.close(agent)


def do_nothing(*_: object) -> None:
    """Take a signal. A task inherits what its supervisor ignores, but no handlers."""


def main() -> None:
    """Serve an agent, or, in what is forked, be a supervisor."""
    gc.freeze()  # what is there now stays: no collection need look at it, and by that copy it
    os.umask(0o022)  # of tasks, as programs expect it: their sandboxes are closed to others
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are reaped by the kernel
    agent = fork_supervisors(int(sys.argv[1]))
    if agent is not None:
        os.setsid()
        os.dup2(1, 2)  # it may outlive the agent, whose log this is
        for number in HANDLED:
            signal.signal(number, do_nothing)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        Supervisor(agent).work()


if __name__ == "__main__":
    main()
