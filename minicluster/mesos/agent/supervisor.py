"""The process that tasks are forked from, and their supervisors.

``python -I -S supervisor.py FD WORK_DIR [enclosing]``, the last word where tasks may have namespaces.

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
container, pid_file, exit_file, cgroups (pairs of directories: the task's, and where the supervisor goes
back to); and, or None: uid, gid, data_limit (bytes), oom_events and peak (control files of the task's
memory), running_asked (argv of what says "true" once it runs), oom_asked (of what says whether it was killed
for want of memory_limit bytes), after (argv to run at the end; after_json is its JSON), enclosure (the
namespaces it runs in: hidden and kept folders, and ids for a user namespace).

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
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from minicluster.mesos.agent import enclosure

    Spec = dict[str, Any]

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
"""Signals that must not end a supervisor before its task."""
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that a task must not inherit as ignored."""
OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND
LONGEST_MESSAGE_BYTES = 16384
FAILURE_BYTES = 512
"""Bytes of a reason why a task never began."""
LONGEST_CREATION_SECONDS = 120.0
ASKED_EACH_SECONDS = 0.1
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
        self.cgroups: Sequence[tuple[str, str]] = spec["cgroups"]
        self.data_limit: int | None = spec["data_limit"]
        self.own_limits = resource.getrlimit(resource.RLIMIT_DATA)

    def __enter__(self) -> None:
        """Put this process under the limits. Raise OSError."""
        try:
            for group, _ in self.cgroups:
                join(group)
        except OSError:
            self.leave()
            raise
        if self.data_limit:  # the soft limit alone: this process could not raise the hard one again
            resource.setrlimit(resource.RLIMIT_DATA, (self.data_limit, self.own_limits[1]))

    def __exit__(self, *raised: object) -> None:
        """Free this process of them. Raise OSError."""
        if self.data_limit:
            resource.setrlimit(resource.RLIMIT_DATA, self.own_limits)
        self.leave()

    def leave(self) -> None:
        """Go back to the own cgroups. Raise OSError."""
        for _, home in self.cgroups:
            join(home)


def join(cgroup: str) -> None:
    """Move this process into a cgroup."""
    file = os.open(f"{cgroup}/cgroup.procs", os.O_WRONLY)
    try:
        os.write(file, b"0")
    finally:
        os.close(file)


def start_task(spec: "Spec", agent: int) -> "tuple[int, int | None]":
    """Start the task in a session of its own, its output in the sandbox. Raise OSError.

    Return its pid, or of one in namespaces that of their first process, and what tells how it ended.
    """
    told = None
    with Limited(spec):
        if spec["enclosure"]:
            pid, told = enclosure.start(spec, agent)
        else:
            pid = spawn(spec) if spec["uid"] is None else spawn_as(spec)
    if spec["data_limit"]:  # it may not raise its limit
        resource.prlimit(pid, resource.RLIMIT_DATA, (spec["data_limit"], spec["data_limit"]))
    return pid, told


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


def oom_killed(events: "str | None") -> bool:
    """Return whether the kernel killed something for want of memory, by a cgroup's file of such events."""
    try:
        with open(events or "/nonexistent") as file:
            counts = dict(line.split() for line in file if len(line.split()) == 2)
    except OSError:
        return False
    return int(counts.get("oom_kill", "0")) > 0


def peak_of(file: "str | None") -> str:
    """Return, as JSON, the most bytes of memory that a cgroup had; null where that is not known."""
    if file is None:
        return "null"
    try:
        fd = os.open(file, os.O_RDONLY)
    except OSError:
        return "null"
    try:
        return os.read(fd, 32).decode().strip() or "null"
    finally:
        os.close(fd)


def cpu_seconds(group: str) -> float:
    """Return the CPU seconds of all processes that were in a cgroup; 0 where it does not account for them."""
    for name, unit in (("cpuacct.usage", 1e9), ("cpu.stat", 1e6)):
        try:
            fd = os.open(f"{group}/{name}", os.O_RDONLY)
        except OSError:
            continue
        try:
            told = os.read(fd, 4096).decode().split()
        finally:
            os.close(fd)
        if name == "cpu.stat":
            told = told[told.index("usage_usec") + 1 :] if "usage_usec" in told else []
        if told:
            return int(told[0]) / unit
    return 0.0


def end_group(pid: int) -> None:
    """Kill what is left of the task's process group; its leader is dead but not yet reaped, so it is ours."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def await_running(asked: "list[str]", pid: int) -> None:
    """Wait until a command says that the task runs, but not for ever, nor when the process `pid` has ended.

    `docker run` is there a second before its container; until then, nobody can run a command in it.
    """
    end = time.monotonic() + LONGEST_CREATION_SECONDS
    while time.monotonic() < end and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if said_by(asked) == b"true":
            return
        time.sleep(ASKED_EACH_SECONDS)


def said_by(argv: "list[str]") -> bytes:
    """Return what a command writes, up to a line's end."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(theirs, 1)
            os.execvp(argv[0], argv)
        finally:
            os._exit(1)
    os.close(theirs)
    said = os.read(ours, 64)
    os.close(ours)
    os.waitpid(pid, 0)
    return said.strip()


def clean_up(spec: "Spec") -> None:
    """Remove the container and the cgroups."""
    if spec["after"]:
        pid = os.fork()
        if pid == 0:
            try:
                os.execvp(spec["after"][0], spec["after"])
            finally:
                os._exit(1)
        os.waitpid(pid, 0)
    for group, _ in spec["cgroups"]:
        try:
            os.rmdir(group)
        except OSError:  # what the task detached is in it
            continue


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
            return os.read(self.agent, LONGEST_MESSAGE_BYTES)
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
                self.send(b"failed " + str(error).encode()[:FAILURE_BYTES])
                continue
            try:
                self.run(spec)
            except BaseException:
                redirect(spec)  # the traceback goes to the task's stderr
                raise

    def run(self, spec: "Spec") -> None:
        """Run a claimed task, wait for its end and write it down."""
        try:
            pid, told = start_task(spec, self.agent)
        except OSError as error:
            with open(spec["stderr"], "a") as file:
                file.write(f"Failed to execute command '{spec['file']}': {error.strerror}\n")
            self.send(b"started")
            self.end(spec, NOT_EXECUTED, 0)
            return
        overwrite(spec["pid_file"], self.record(spec, pid), spec["pid_file"])
        if spec["running_asked"]:
            await_running(spec["running_asked"], pid)
        self.send(b"started")
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        end_group(pid)
        _, status, usage = os.wait4(pid, 0)
        max_rss_kb, cpu = usage.ru_maxrss, usage.ru_utime + usage.ru_stime
        if told is not None:
            status, max_rss_kb = enclosure.outcome(told, status, max_rss_kb)
        self.end(spec, status, max_rss_kb, cpu)

    def end(self, spec: "Spec", status: int, max_rss_kb: int, cpu: float = 0.0) -> None:
        """Write down how the task ended, and tell it. `cpu`: seconds of its processes, without cgroups."""
        oom, peak = "false", peak_of(spec["peak"])
        if status and oom_killed(spec["oom_events"]):
            oom = "true"
        elif status and spec["oom_asked"] and said_by(spec["oom_asked"]) == b"true":
            oom, peak = "true", str(spec["memory_limit"])  # its cgroup is gone: it had all of it
        cpu = max([cpu, *(cpu_seconds(group) for group, _ in spec["cgroups"])])
        used = "null" if spec["after"] else f"{cpu:.6f}"  # of a container, these are not its processes
        clean_up(spec)
        fields = (
            f'"status": {status}, "max_rss_kb": {max_rss_kb}, "peak": {peak}, "oom": {oom}, "cpu": {used}'
        )
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
            os.write(agent, b"failed " + str(error).encode()[:FAILURE_BYTES])
            pid = -1
        if pid == 0:
            requests.close()
            return agent
        os.close(agent)


def do_nothing(*_: object) -> None:
    """Take a signal. A task inherits what its supervisor ignores, but no handlers."""


def import_enclosure() -> None:
    """Import what lies beside this file; `-I` keeps its folder from the path."""
    global enclosure
    sys.path.insert(0, os.path.dirname(__file__))
    enclosure = __import__("enclosure")
    del sys.path[0]


def main() -> None:
    """Serve an agent, or, in what is forked, be a supervisor."""
    if sys.argv[3:]:
        import_enclosure()
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
