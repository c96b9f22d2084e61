"""What is run in a container to list and read files of its sandbox, and what its answers mean. Pure.

The scripts need a shell, and the programs `TOOLS`, in the forms that coreutils, BusyBox and Toybox share.
They run as the container's user within the container, so that what they read is what its task can read.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from hostmgr.kubernetes.secrets import SANDBOX
from peloton.errors import NotFound, PelotonError, Refused, shown
from peloton.model.plural import plural

BLOCK_BYTES = 64 * 1024
MOST_ENTRIES = 5000
"""Files of a folder that is listed."""
NOT_READ = "files of the sandbox are not read"
TOOLS = ("readlink", "stat", "dd")
_SHELL_FAILED = frozenset({126, 127})
"""Exit codes of a shell that cannot run a program; some runtimes give them where there is no shell."""


class Exit(IntEnum):
    """How a script ends that shows nothing: codes that its programs do not have."""

    NO_SANDBOX = 81
    MISSING = 82
    OUTSIDE = 83
    NO_TOOL = 84
    MOUNTED = 85
    OTHER_KIND = 86
    UNREADABLE = 87
    TOO_MANY = 88


_FIND = f"""
[ -n "$MESOS_SANDBOX" ] && root=$(cd -P -- "$MESOS_SANDBOX" && pwd -P) || exit {Exit.NO_SANDBOX:d}
for tool in {" ".join(TOOLS)}; do
  command -v $tool > /dev/null || {{ echo $tool >&2; exit {Exit.NO_TOOL:d}; }}
done
at=$(readlink -f -- "$root/$1") && [ -e "$at" ] || exit {Exit.MISSING:d}
case "$at/" in "$root"/*) ;; *) exit {Exit.OUTSIDE:d} ;; esac
first=$2 count=$3
shift 3
for mount; do
  case "$at/" in "$root/$mount"/*) exit {Exit.MOUNTED:d} ;; esac
done
"""
"""Finds the file `$1` of the sandbox as `$at`; `$4` and more are paths at which something else is mounted."""
LIST = f"""{_FIND}
[ -d "$at" ] || exit {Exit.OTHER_KIND:d}
cd -P -- "$at" && [ -r . ] || exit {Exit.UNREADABLE:d}
set -- ./* ./.[!.]* ./..?*
[ $# -le {MOST_ENTRIES + 2} ] || exit {Exit.TOO_MANY:d}
stat -c '%f %h %u %g %s %Y %n' -- "$@" 2> /dev/null
[ $? -lt 126 ] || exit {Exit.TOO_MANY:d}
"""
READ = f"""{_FIND}
[ -f "$at" ] || exit {Exit.OTHER_KIND:d}
[ -r "$at" ] || exit {Exit.UNREADABLE:d}
size=$(stat -c %s -- "$at") || exit {Exit.MISSING:d}
echo "$size"
[ $count -ge 0 ] || count=$(((size + {BLOCK_BYTES - 1}) / {BLOCK_BYTES}))
[ $count -gt 0 ] && [ $((first * {BLOCK_BYTES})) -lt "$size" ] || exit 0
exec dd if="$at" bs={BLOCK_BYTES} skip=$first count=$count 2> /dev/null
"""
"""Writes the size of a file, and `$3` blocks from the block `$2` on: all of them where that is negative."""
_LINE = re.compile(
    r"([0-9a-f]{1,8}) (\d{1,18}) (\d{1,18}) (\d{1,18}) (\d{1,18}) (-?\d{1,18}) \./(.+)", re.ASCII
)
_NO_SHELL = re.compile(r"/bin/sh.*(no such file|not found)", re.IGNORECASE | re.DOTALL)


class NoFile(PelotonError):
    """A path is not that of a file or folder which can be shown as what was asked for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a folder of the sandbox has."""

    name: str
    mode: str
    """As `ls -l` shows it."""
    links: int
    user: str
    group: str
    size: int
    modified: float


def inner_path(text: str) -> str:
    """Return a path of the sandbox, `a/b`, empty for the sandbox itself. Raises NoFile, as an agent does."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in text:
        raise NoFile(f"{shown(text)} is inaccessible: give a path inside of the sandbox, without `..`")
    return "/".join(parts)


def list_command(path: str, mounts: Sequence[str]) -> list[str]:
    """Return the command that lists a folder, of a path as `inner_path` returns it."""
    return ["/bin/sh", "-c", LIST, "sh", path, "0", "0", *mounts]


def read_command(path: str, mounts: Sequence[str], first: int, count: int) -> list[str]:
    """Return the command that writes the size of a file, and blocks of it; all, where `count` is negative."""
    return ["/bin/sh", "-c", READ, "sh", path, str(first), str(count), *mounts]


def blocks(offset: int, length: int) -> tuple[int, int, int]:
    """Return the first block of some bytes, how many there are, and what is to be cut off before them."""
    first, cut = divmod(offset, BLOCK_BYTES)
    return first, -(-(cut + length) // BLOCK_BYTES), cut


def mounts_of(pod: Mapping[str, Any], container: str) -> list[str]:
    """Return the paths in the sandbox at which a pod mounts something that is not of the sandbox.

    An agent does not serve it either: secrets above all.
    """
    spec = pod.get("spec") or {}
    own = {each["name"] for each in spec.get("volumes") or () if "emptyDir" in each}
    mounts = [
        mount
        for each in spec.get("containers") or ()
        if each["name"] == container
        for mount in each.get("volumeMounts") or ()
    ]
    paths = {
        posixpath.normpath(each["mountPath"]).removeprefix(f"{SANDBOX}/")
        for each in mounts
        if each["name"] not in own
    }
    return sorted(path for path in paths if not path.startswith("/"))


def entries(output: bytes) -> Iterator[Entry]:
    """Yield what `list_command` has found. Names with line breaks are left out."""
    for line in output.decode("utf-8", "replace").split("\n"):
        if found := _LINE.fullmatch(line):
            mode, links, user, group, size, modified, name = found.groups()
            yield Entry(
                name,
                stat.filemode(int(mode, 16)),
                int(links),
                user,
                group,
                int(size),
                float(modified),
            )


def refusal(path: str, code: int | None, failure: str, error: bytes) -> PelotonError:
    """Return why a command has failed: by its exit code, its errors, or what the API server says of it."""
    named = shown(path or ".")
    told = error.decode("utf-8", "replace").strip()
    if code in (Exit.MISSING, Exit.OUTSIDE):
        return NotFound(f"there is no file {named} in the sandbox")
    if code == Exit.OTHER_KIND:
        return NoFile(f"{named} cannot be read: it is a folder, or no plain file")
    texts = {
        Exit.NO_SANDBOX: "the container has no sandbox: it was launched by an earlier release",
        Exit.NO_TOOL: f"{NOT_READ}: the image has no {told[:20]}",
        Exit.MOUNTED: f"{named} is not shown: it is mounted into the sandbox, such as a secret or a volume",
        Exit.UNREADABLE: f"the container's user may not read {named}",
        Exit.TOO_MANY: f"{named} is not listed: it has over {plural(MOST_ENTRIES, 'file')}",
    }
    if code in texts:
        return Refused(texts[Exit(code)])
    if code in _SHELL_FAILED or _NO_SHELL.search(failure):
        return Refused(f"{NOT_READ}: the image has no /bin/sh")
    return Refused(f"{NOT_READ}: {failure or f'the command ended with {code}'}")
