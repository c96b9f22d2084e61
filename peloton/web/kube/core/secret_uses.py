"""What pods use of Secrets: files of volumes, and variables, which a shell reads from files of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.refusals import INVALID

MOST_FILES = 100
"""Files from Secrets in a pod: the number of secrets that a job may have."""
VARIABLES_FOLDER = "/etc/peloton-secrets"
"""Where the files of variables are."""
Keys = Mapping[str, Sequence[str]]
"""The names of the Secrets of a namespace, with their keys."""
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_NAMES = frozenset({"secret", "secretKeyRef", "secretRef"})


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file of a pod with a part of a Secret."""

    path: str
    name: str
    key: str


class SecretUses:
    """The Secrets that a pod uses, as its template is read."""

    def __init__(self, known: Keys) -> None:
        self._known = known
        self._files: dict[str, SecretFile] = {}
        self._volumes: dict[str, list[tuple[str, str, str]]] = {}
        """Of each volume the paths in it, with names and keys."""
        self.variables: dict[str, str] = {}
        """The files of variables."""

    @property
    def files(self) -> tuple[SecretFile, ...]:
        """Return the files that the pod is to have."""
        return tuple(self._files.values())

    @property
    def volumes(self) -> frozenset[str]:
        """Return the names of the volumes."""
        return frozenset(self._volumes)

    def variable(self, source: Node, variable: str) -> None:
        """Read where a variable has its value from."""
        ref = source.node("secretKeyRef")
        if not source.given("secretKeyRef"):
            text = "give a value, or secretKeyRef: Peloton reads it from nowhere else"
            source.problems.refuse(source.path, text)
            return
        if not _VARIABLE.fullmatch(variable):
            source.refuse("secretKeyRef", f"{variable[:100]!r} is no name that a shell exports", INVALID)
        else:
            key = ref.text("key")
            for name, found in self._parts(ref, "name", [key]):
                self._add_variable(ref, variable, name, found)
        ref.close()
        source.close()

    def all_variables(self, node: Node) -> None:
        """Read the Secrets all of whose parts are variables."""
        for each in node.nodes("envFrom"):
            prefix, ref = each.text("prefix"), each.node("secretRef")
            if not each.given("secretRef"):
                each.refuse("secretRef", "give secretRef: there are no ConfigMaps")
            else:
                for name, key in self._parts(ref, "name", None):
                    if _VARIABLE.fullmatch(prefix + key):
                        self._add_variable(ref, prefix + key, name, key)
                    else:
                        each.problems.warn(each.path, f"{key}: no variable, for its name")
            ref.close()
            each.close()

    def volume(self, volume: Node, own: str) -> None:
        """Read a volume with the parts of a Secret."""
        source = volume.node("secret")
        items = [(item.text("key"), item) for item in source.nodes("items")]
        paths = {key: item.text("path") or key for key, item in items}
        for _, item in items:
            if item.given("mode"):
                _warn_of_mode(item, "mode")
            item.close()
        if source.given("defaultMode"):
            _warn_of_mode(source, "defaultMode")
        parts = self._parts(source, "secretName", list(paths) if items else None)
        self._volumes[own] = [(paths.get(key, key), name, key) for name, key in parts]
        source.close()

    def mount(self, mount: Node) -> None:
        """Read a mount of such a volume."""
        folder, own = mount.text("mountPath"), mount.text("name")
        if not folder.startswith("/") or ".." in PurePosixPath(folder).parts:
            mount.refuse("mountPath", f"{folder[:100]!r} is no absolute path", INVALID)
            return
        mount.flag("readOnly")
        for path, name, key in self._volumes[own]:
            if path.startswith("/") or ".." in PurePosixPath(path).parts:
                mount.refuse("name", f"{path[:100]!r} is no path below that of the mount", INVALID)
                continue
            file = str(PurePosixPath("/" + folder.lstrip("/"), path))
            self._add(mount, SecretFile(file, name, key))

    def _parts(self, ref: Node, field: str, keys: Sequence[str] | None) -> list[tuple[str, str]]:
        """Return name and key of each part of a Secret that is wanted and there; None: of all parts."""
        name, optional = ref.text(field), ref.flag("optional")
        there = self._known.get(name)
        if there is None:
            if not optional:
                text = (
                    f"the namespace has no Secret {name[:100]!r}: create it before" if name else "give a name"
                )
                ref.refuse(field, text, INVALID)
            return []
        wanted = list(there) if keys is None else keys
        for key in wanted:
            if key not in there and not optional:
                at = "key" if keys is not None and field == "name" else field
                ref.refuse(at, f"the Secret {name} has no {key[:100]!r}, but {', '.join(there)}", INVALID)
        return [(name, key) for key in wanted if key in there]

    def _add_variable(self, ref: Node, variable: str, name: str, key: str) -> None:
        path = f"{VARIABLES_FOLDER}/{name}/{key}"
        if self._add(ref, SecretFile(path, name, key)):
            self.variables[variable] = path

    def _add(self, node: Node, file: SecretFile) -> bool:
        """Add a file; return whether there is room for it."""
        if file.path not in self._files and len(self._files) >= MOST_FILES:
            node.refuse("name", f"a pod takes at most {MOST_FILES} parts of Secrets", INVALID)
            return False
        self._files[file.path] = file
        return True

    def script(self) -> str:
        """Return the part of a shell's script that exports the variables; empty without any."""
        # In a container the path is the file's; a plain process finds it in its sandbox.
        return "".join(
            f'p={path}; [ -e "$p" ] || p="$MESOS_SANDBOX$p"; {variable}="$(cat "$p")" || exit 1; '
            f"export {variable}; "
            for variable, path in self.variables.items()
        )


def _warn_of_mode(node: Node, key: str) -> None:
    node.integer(key)
    node.problems.warn(node.at(key), "the files can be read by the user of the task alone")


def mentions_secrets(value: Any) -> bool:
    """Return whether a manifest may use Secrets."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            if _NAMES & each.keys():
                return True
            rest += each.values()
        elif isinstance(each, list):
            rest += each
    return False
