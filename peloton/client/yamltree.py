"""YAML as a tree of nodes that know their line, within bounds of size and depth.

Nothing is constructed from a tag: the spec reader works on the tree.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from peloton.errors import PelotonError
from peloton.model.amounts import byte_size

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 2_000_000
"""Bounds of one file: its size, how deep it nests, and how many values it holds once aliases are followed."""

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"


class SpecError(PelotonError):
    """A file is refused: the message has file, line, the field's path, its value, and what is valid."""

    def __init__(self, text: str, *, source: str, line: int | None = None, path: str = "") -> None:
        self.source = source
        self.line = line
        self.path = path
        self.what = f"{path}: {text}" if path else text
        """The message without file and line."""
        where = source if line is None else f"{source}:{line}"
        super().__init__(f"{where}: {self.what}")


def read_text(file: str) -> str:
    """Return the content of a file, `-` being standard input. Raises SpecError."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror}", source=file) from error
    if len(content) > MAX_BYTES:
        raise SpecError(f"larger than {byte_size(MAX_BYTES)}, the most a spec may have", source=file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"not UTF-8 text (byte {error.start})", source=file) from error


def compose(text: str, source: str) -> Node:
    """Return the root node of the only document in `text`. Raises SpecError."""
    try:
        _check_depth(text, source)
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ": ".join(part for part in (error.context, error.problem) if part)
        if mark is not None and _at_tab(text, mark.line):
            said = "a tab: YAML is indented by spaces"
        raise SpecError(f"not YAML: {said}", source=source, line=mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:
        raise SpecError(f"not YAML: {' '.join(str(error).split())}", source=source) from error
    if root is None:
        raise SpecError("holds nothing", source=source)
    return root


def _at_tab(text: str, line: int) -> bool:
    """Return whether a line, counted from 0, is indented with a tab."""
    lines = text.splitlines()
    shown = lines[line] if line < len(lines) else ""
    return "\t" in shown[: len(shown) - len(shown.lstrip())]


def _check_depth(text: str, source: str) -> None:
    # Composing recurses, in C too, so the depth is bounded before by the event stream, which does not.
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise SpecError(f"nested deeper than {MAX_DEPTH} levels", source=source)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def entries(node: MappingNode) -> Iterator[tuple[Node, Node]]:
    """Yield the pairs of a mapping. Its own come first; a merge key (`<<`) adds only missing keys."""
    seen = {key.value for key, _ in node.value if isinstance(key, ScalarNode)}
    visited = {id(node)}
    waiting: list[MappingNode] = []
    for key, value in node.value:
        if key.tag == _MERGE:
            waiting += _mappings(value)
        else:
            yield key, value
    while waiting:
        part = waiting.pop(0)
        if id(part) in visited:
            continue
        visited.add(id(part))
        for key, value in part.value:
            if key.tag == _MERGE:
                waiting += _mappings(value)
            elif key.value not in seen:
                seen.add(key.value)
                yield key, value


def _mappings(node: Node) -> list[MappingNode]:
    parts = node.value if isinstance(node, SequenceNode) else [node]
    return [part for part in parts if isinstance(part, MappingNode)]


def line_of(node: Node) -> int:
    """Return the line of the node in its file, counted from 1."""
    return int(node.start_mark.line) + 1
