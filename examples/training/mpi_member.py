"""Start an MPI program over the members of a gang by `mpirun`, without ssh and without rights to other tasks.

    peloton run --framework mpi -n 4 -- python3 mpi_member.py python3 train_mpi.py --steps 200

All members run this file. That of rank 0 listens at its port, and runs `mpirun` once the others have
connected to it. Where `mpirun` would call `ssh HOST COMMAND`, it calls this file, and the command, a daemon
of Open MPI, is handed to the member over its connection, which runs it in its own sandbox with its own
resources. So members take commands from the first one only, whose address Peloton has told them. With a
member its daemon ends, by which `mpirun` and the gang end.

Needs Open MPI 4 or 5 and Python 3.9 on the hosts, and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

AGENT = "--as-remote-shell"
OWN_DOOR = "PELOTON_MPI_DOOR"
"""The socket of the launcher, for the file as `mpirun` calls it in place of ssh."""
CONNECT_SECONDS = 120.0
RETRY_SECONDS = 0.2


def main(arguments: list[str]) -> int:
    """Run as the launcher, a member, or in place of ssh; return the exit code."""
    if arguments[:1] == [AGENT]:
        return hand_over(arguments[1:])
    if not arguments or "PELOTON_RANK" not in os.environ:
        print("usage, in a gang with `framework: mpi`: mpi_member.py PROGRAM [ARGUMENT...]", file=sys.stderr)
        return 2
    rank, size = int(os.environ["PELOTON_RANK"]), int(os.environ["PELOTON_SIZE"])
    host, _, port = os.environ["PELOTON_RANK0_ADDRESS"].rpartition(":")
    if rank:
        return serve(rank, host.strip("[]"), int(port))
    return launch(arguments, size, int(port))


def launch(arguments: list[str], size: int, port: int) -> int:
    """Wait for all other members, and run `mpirun` with a slot on each."""
    members = accept(port, size)
    folder = Path(os.environ.get("MESOS_SANDBOX", "."))
    hosts = folder / "mpi-hosts"
    names = ["localhost", *(f"member-{rank}" for rank in range(1, size))]
    hosts.write_text("".join(f"{name} slots=1\n" for name in names))
    with socket.socket(socket.AF_UNIX) as listener, TemporaryDirectory() as private:
        door = Path(private) / "door"
        listener.bind(str(door))
        listener.listen(size)
        threading.Thread(target=pass_on, args=(listener, members), daemon=True).start()
        remote_shell = f"{sys.executable} {Path(__file__).resolve()} {AGENT}"
        environment = {
            **os.environ,
            OWN_DOOR: str(door),
            "OMPI_MCA_plm_rsh_agent": remote_shell,
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "PRTE_MCA_plm_ssh_agent": remote_shell,
            "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        }
        if os.geteuid() == 0:  # whom a task runs as is the cluster's to say
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            environment |= {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = ["mpirun", "--hostfile", str(hosts), "-n", str(size), "--bind-to", "none", *arguments]
        code = subprocess.run(command, env=environment, check=False).returncode
    for channel in members.values():
        channel.close()
    return code


def accept(port: int, size: int) -> dict[int, IO[bytes]]:
    """Return a connection to each other member, by rank."""
    members: dict[int, IO[bytes]] = {}
    with socket.create_server(("", port), backlog=size) as server:
        while len(members) < size - 1:
            channel = server.accept()[0].makefile("rwb")
            words = channel.readline().split()
            if len(words) == 2 and words[0] == b"member" and words[1].isdigit():
                members[int(words[1])] = channel
    return members


def pass_on(listener: socket.socket, members: dict[int, IO[bytes]]) -> None:
    """Pass each command that `mpirun` has for a host on to the member, and its exit code back."""
    while True:
        asked = listener.accept()[0].makefile("rwb")
        threading.Thread(target=pass_one, args=(asked, members), daemon=True).start()


def pass_one(asked: IO[bytes], members: dict[int, IO[bytes]]) -> None:
    """Pass one command on; 255, as of ssh, where there is no such member."""
    host, command = json.loads(asked.readline())
    channel = members.get(int(host.rpartition("-")[2]))
    code = "255"
    if channel is not None:
        channel.write(json.dumps(command).encode() + b"\n")
        channel.flush()
        code = channel.readline().decode().strip() or code
    asked.write(code.encode() + b"\n")
    asked.flush()


def hand_over(words: list[str]) -> int:
    """Do what ssh would: `HOST COMMAND`, after options."""
    while words and words[0].startswith("-"):
        words.pop(0)
    host, *command = words
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(os.environ[OWN_DOOR])
        channel = door.makefile("rwb")
        channel.write(json.dumps([host, " ".join(command)]).encode() + b"\n")
        channel.flush()
        return int(channel.readline() or b"255")


def serve(rank: int, host: str, port: int) -> int:
    """Connect to the first member, and run what it hands over; return 0 where that succeeds."""
    channel = connect(host, port).makefile("rwb")
    channel.write(f"member {rank}\n".encode())
    channel.flush()
    line = channel.readline()
    if not line:
        print(f"mpi_member: rank 0 at {host}:{port} has ended before mpirun began", file=sys.stderr)
        return 1
    daemon = subprocess.Popen(["/bin/sh", "-c", json.loads(line)])
    threading.Thread(target=end_with, args=(channel, daemon), daemon=True).start()
    code = daemon.wait()
    channel.write(f"{code if code >= 0 else 128 - code}\n".encode())
    channel.flush()
    return 0 if code == 0 else 1


def connect(host: str, port: int) -> socket.socket:
    """Connect to the first member, which may start later than this one."""
    until = threading.Event()
    timer = threading.Timer(CONNECT_SECONDS, until.set)
    timer.daemon = True
    timer.start()
    while True:
        try:
            return socket.create_connection((host, port), timeout=None)
        except OSError:
            if until.wait(RETRY_SECONDS):
                raise


def end_with(channel: IO[bytes], daemon: subprocess.Popen[bytes]) -> None:
    """End the daemon where the first member ends before it."""
    channel.read()
    daemon.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
