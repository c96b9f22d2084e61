"""A task's supervisor: a script of its own, run as ``python -I -S supervisor.py SPEC FD``.

It starts the task in a session of its own, records who runs before the task may begin, tells the agent
``started`` on FD, waits, ends what the task left behind in its process group, and writes how it ended. It
outlives the agent, which finds it again by the record. There is one per task, so it imports next to nothing:
json, signal, typing and pathlib would more than double the time that it takes to start.

SPEC is a marshalled dictionary: file (looked for on env's PATH), argv, env, cwd, stdout, stderr, container,
pid_file, exit_file; and, or None: uid, gid, data_limit (bytes), cgroup (directory), after (argv to run at the
end; after_json is its JSON).
"""

# ruff: noqa: PTH105, PTH106, PTH108, PTH118

import _signal as signal  # type: ignore[import-not-found]
import marshal
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Spec = dict[str, Any]

IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
"""Signals that must not end a supervisor before its task."""


def start_of(pid: int) -> str:
    """Return when a process started, in clock ticks since boot."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[19]


def replace(path: str, text: str) -> None:
    """Write a file as a whole."""
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)


def record(spec: "Spec", *roles: "tuple[str, int]") -> None:
    """Write down which processes there are, as JSON."""
    known = [f'"{role}": {{"pid": {pid}, "start": "{start_of(pid)}"}}' for role, pid in roles]
    fields = [f'"container": "{spec["container"]}"', f'"after": {spec["after_json"]}', *known]
    replace(spec["pid_file"], "{" + ", ".join(fields) + "}")


def limit(spec: "Spec") -> None:
    """Put this process under the task's limits and its user."""
    if spec["cgroup"]:
        with open(os.path.join(spec["cgroup"], "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))
    if spec["data_limit"]:
        resource.setrlimit(resource.RLIMIT_DATA, (spec["data_limit"], spec["data_limit"]))
    if spec["uid"] is not None:
        os.setgroups([])
        os.setgid(spec["gid"])
        os.setuid(spec["uid"])


def become_task(spec: "Spec", gate: int, settled: int) -> None:
    """Turn into the task once the gate opens; never returns.

    From ``settled`` on it leads its session and dies of signals like any process.
    """
    try:
        os.setsid()
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        os.write(settled, b"1")
        if os.read(gate, 1) != b"1":
            os._exit(1)
        limit(spec)
        os.chdir(spec["cwd"])
        os.execvpe(spec["file"], spec["argv"], spec["env"])
    except OSError as error:
        os.write(2, f"Failed to execute command '{spec['file']}': {error.strerror}\n".encode())
    finally:
        os._exit(1)


def redirect(spec: "Spec") -> None:
    """Send standard output and error to the sandbox, and close everything else but the pipe to the agent."""
    for number, path in ((1, spec["stdout"]), (2, spec["stderr"])):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(fd, number)
        os.close(fd)


def oom_killed(spec: "Spec") -> bool:
    """Whether the kernel killed something in the task's cgroup for want of memory."""
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


def main() -> None:
    """Supervise one task."""
    with open(sys.argv[1], "rb") as file:
        spec: Spec = marshal.load(file)
    notify = int(sys.argv[2])
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    record(spec, ("supervisor", os.getpid()))
    redirect(spec)
    gate, opener = os.pipe()
    settling, settled = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(opener)
        os.close(notify)
        become_task(spec, gate, settled)
    os.close(gate)
    os.close(settled)
    os.read(settling, 1)
    record(spec, ("supervisor", os.getpid()), ("task", pid))
    os.write(opener, b"1")
    os.close(opener)
    try:
        os.write(notify, b"started\n")
    except OSError:
        pass  # the agent is gone; it will read the record when it is back
    os.close(notify)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    end_group(pid)
    _, status, usage = os.wait4(pid, 0)
    oom = "true" if oom_killed(spec) else "false"
    clean_up(spec)
    replace(spec["exit_file"], f'{{"status": {status}, "max_rss_kb": {usage.ru_maxrss}, "oom": {oom}}}')
    os.unlink(spec["pid_file"])


if __name__ == "__main__":
    main()
