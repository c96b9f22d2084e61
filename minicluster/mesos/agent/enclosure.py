"""Namespaces for a task: inside there are its own processes only, and of hidden folders what it was given.

A supervisor starts a task in them (`start`): it clones the first process of new namespaces, which makes the
mounts, forks the task, reaps what the task leaves behind, and tells how the task ended; all that is inside
ends with it. Whoever is not root gets a user namespace, too, in which it is nobody else. Run as a program,
this runs a command beside a task: TERMINAL INIT USER_NAMESPACE UID GID FOLDER FILE ARGV…

Like `supervisor`, which imports it, this imports next to nothing.
"""

# ruff: noqa: PTH103, PTH108, PTH119

import _signal as signal  # type: ignore[import-not-found]
import ctypes
import errno
import os
import platform
import resource
import sys
import warnings  # for os.exec*p, which cannot import it where this Python is hidden or closed to the user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Spec = dict[str, Any]

# clone(2), mount(2), prctl(2).
NEW_MOUNTS, NEW_USER, NEW_PIDS = 0x00020000, 0x10000000, 0x20000000
READ_ONLY, NO_SETUID, NO_DEVICES, NO_EXEC = 0x1, 0x2, 0x4, 0x8
REMOUNT, BIND, RECURSIVE, PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
NO_NEW_PRIVILEGES = 38
CLONE = {"x86_64": 56, "aarch64": 220}
"""The number of clone(2), which the C library does not offer as fork(2)'s like."""
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STARTED = b"+"
"""What the first process tells first; anything else is why the task did not begin."""
OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND
del warnings
_LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """Return the result of a call of the C library. Raise OSError."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def clone(flags: int) -> int:
    """Fork into new namespaces; return 0 in the child. Raise OSError."""
    number = CLONE.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"namespaces: not known how to make them on {platform.machine()}")
    return checked(_LIBC.syscall(number, flags | signal.SIGCHLD, 0, 0, 0, 0), "namespaces")


def mount(source: "str | None", target: str, kind: "str | None", flags: int, options: str = "") -> None:
    """Mount. Raise OSError."""
    given = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    done = _LIBC.mount(*given, ctypes.c_ulong(flags), options.encode() or None)
    checked(done, f"mount {kind or source or 'again'} at {target}")


# --- inside ---


def map_ids(uid: int, gid: int) -> None:
    """Be the same user and group in a new user namespace, and have no others. Raise OSError."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def hide(hidden: "list[str]", kept: "list[str]", names: "dict[str, str]") -> None:
    """Put empty folders in place of some, with nothing in them but what is kept; add names. Raise OSError."""
    mount(None, "/", None, RECURSIVE | PRIVATE)
    handles = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in kept]
    for folder in hidden:
        mount("tmpfs", folder, "tmpfs", NO_SETUID | NO_DEVICES, "mode=0755,size=64m")
    for path, handle in handles:
        os.makedirs(path, exist_ok=True)
        mount(f"/proc/self/fd/{handle}", path, None, BIND | RECURSIVE)
        os.close(handle)
    for path, line in names.items():
        add_line(path, line, f"{hidden[0]}/{os.path.basename(path)}")
    for folder in hidden:
        mount(None, folder, None, REMOUNT | BIND | READ_ONLY | NO_SETUID | NO_DEVICES)
    mount("proc", "/proc", "proc", NO_SETUID | NO_DEVICES | NO_EXEC)


def add_line(path: str, line: str, scratch: str) -> None:
    """Put a copy of a file with one more line in its place, if it is there. Raise OSError.

    `scratch`: where the copy is written; its name is removed, the mount keeps the file.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return
    end = b"" if not content or content.endswith(b"\n") else b"\n"
    with open(scratch, "xb") as file:
        file.write(content + end + os.fsencode(line) + b"\n")
    mount(scratch, path, None, BIND)
    os.unlink(scratch)


def become(uid: "int | None", gid: "int | None") -> None:
    """Take a user, and no more privileges later on. Raise OSError."""
    if uid is not None and gid is not None:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    checked(_LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")


def execute(spec: "Spec") -> None:
    """Become the task. Raise OSError."""
    if spec["data_limit"]:
        resource.setrlimit(resource.RLIMIT_DATA, (spec["data_limit"], spec["data_limit"]))
    become(spec["uid"], spec["gid"])
    os.chdir(spec["cwd"])
    for number in IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(spec["file"], spec["argv"], spec["env"])


def fork_task(spec: "Spec") -> int:
    """Fork the task; return its pid once it is executed. Raise OSError."""
    failure, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            execute(spec)
        except OSError as error:
            os.write(told, f"{error.errno} {error.strerror}".encode())
        finally:
            os._exit(1)
    os.close(told)
    text = os.read(failure, 512).decode()
    os.close(failure)
    if text:
        os.waitpid(pid, 0)
        number, _, reason = text.partition(" ")
        raise OSError(int(number), reason)
    return pid


def attend(spec: "Spec", told: int) -> "NoReturn":
    """Be the first process of the namespaces, until the task has ended."""
    try:
        os.setsid()
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)  # nothing but SIGKILL ends a first process then
        for fd, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(spec[name], OUTPUT, 0o644)
            os.dup2(file, fd)
            os.close(file)
        enclosure = spec["enclosure"]
        if enclosure["ids"]:
            map_ids(*enclosure["ids"])
        hide(enclosure["hidden"], enclosure["kept"], enclosure["names"])
        task = fork_task(spec)
        os.write(told, STARTED)
        while True:
            pid, status, usage = os.wait4(-1, 0)
            if pid == task:
                os.write(told, b"%d %d" % (status, usage.ru_maxrss))
                os._exit(0)
    except OSError as error:
        os.write(told, f"-{error.errno} {error.strerror}".encode())
    finally:
        os._exit(1)


# --- outside ---


def start(spec: "Spec", *inherited: int) -> "tuple[int, int]":
    """Start a task in namespaces of its own; return the pid of their first process, and what `outcome` reads.

    `inherited`: files of this process that are not for it. Raise OSError.
    """
    told, ours = os.pipe()
    pid = clone(NEW_MOUNTS | NEW_PIDS | (NEW_USER if spec["enclosure"]["ids"] else 0))
    if pid == 0:
        for file in (told, *inherited):
            os.close(file)
        attend(spec, ours)
    os.close(ours)
    first = os.read(told, 1)  # no more: the end may have been told, too
    if first == STARTED:
        return pid, told
    number, _, reason = os.read(told, 1024).decode().partition(" ")
    os.close(told)
    os.waitpid(pid, 0)
    raise OSError(int(number or errno.EIO), reason or "namespaces: their first process was gone at once")


def outcome(told: int, status: int, max_rss_kb: int) -> "tuple[int, int]":
    """Return a task's wait status and memory in KiB; those given, where the first process was killed."""
    text = os.read(told, 64).split()
    os.close(told)
    return (int(text[0]), int(text[1])) if text else (status, max_rss_kb)


# --- beside a task ---


def enter(init: int, user: bool) -> None:
    """Enter the namespaces of a process; pids are new in children only. Raise OSError."""
    names = [*(["user"] if user else []), "mnt", "pid"]
    for file in [os.open(f"/proc/{init}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]:
        checked(_LIBC.setns(file, 0), "setns")


def pass_on(pid: int) -> "NoReturn":
    """End as a child does."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)


def probe(uid: str, *hidden: str) -> None:
    """Start a command that does nothing, and wait for its end. Raise OSError."""
    number = int(uid) if uid else None
    spec: Spec = {
        **dict.fromkeys(("stdout", "stderr"), os.devnull),
        "file": "/bin/sh",
        "argv": ["sh", "-c", ":"],
        "env": {},
        "cwd": "/",
        "data_limit": None,
        **dict.fromkeys(("uid", "gid"), number),
        "enclosure": {
            "hidden": list(hidden),
            "kept": [],
            "names": {},
            "ids": None if uid else (os.geteuid(), os.getegid()),
        },
    }
    pid, told = start(spec)
    os.waitpid(pid, 0)
    status, _ = outcome(told, -1, 0)
    if status != 0:
        raise OSError(errno.EIO, f"a command in them ended with status {status}")


def main() -> None:
    """Run a command beside a task, or probe whether there can be namespaces."""
    if sys.argv[1] == "probe":
        try:
            probe(*sys.argv[2:])
        except OSError as error:
            sys.exit(error.strerror)
        return
    terminal, init, user, uid, gid, folder, file, *argv = sys.argv[1:]
    if terminal == "terminal":
        os.login_tty(0)
    os.umask(0o022)
    enter(int(init), user == "user")
    pid = os.fork()
    if pid:
        pass_on(pid)
    try:
        become(int(uid) if uid else None, int(gid) if gid else None)
        os.chdir(folder)
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        os.execvp(file, argv)
    except OSError as error:
        os.write(2, f"Failed to execute '{file}': {error.strerror}\n".encode())
        os._exit(1)


if __name__ == "__main__":
    main()
