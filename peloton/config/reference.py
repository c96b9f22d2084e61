"""Generator of docs/settings.md from the settings classes.

Usage: `python -m peloton.config.reference MODULE:CLASS…`. Prints Markdown, with a section under its dotted
path for each class of nested settings.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic.fields import FieldInfo

from peloton.config.base import Settings, SettingsClass, classes_in, fields_of
from peloton.config.settings import DaemonSettings, ProcessSettings
from peloton.config.sources import variable_targets
from peloton.model.amounts import plain

HEAD = """# Settings

Made from the classes by `make settings`; a test compares. Each is a key of a YAML file (`-c FILE`, repeated,
merged left to right), a dot standing for a mapping inside. Environment variables win over files, flags over
both. An unknown key is an error. `--check` prints what is wrong, and ends.
"""
TABLE = "| setting | type | default | meaning |\n|---|---|---|---|"
PLAIN = {str: "text", int: "integer", float: "number", bool: "true, false", Path: "path"}
_BOUNDS = ((Ge, "ge", "≥"), (Gt, "gt", ">"), (Le, "le", "≤"), (Lt, "lt", "<"))
_FOR_DEVELOPERS = re.compile(r";? see `[\w.]+`| \((?:behaviour|docs/behaviour)[^)]*\)")


def page(classes: Sequence[type[ProcessSettings]]) -> str:
    """Return the whole page. The packages of the classes are named after their processes."""
    shared = Section("Every daemon", "", DaemonSettings, ())
    titles: dict[SettingsClass, str] = {}
    parts = [HEAD, *_sections(shared, titles)]
    for cls in classes:
        shown_above = [name for name in DaemonSettings.model_fields if name not in cls.__annotations__]
        own = Section(_daemon(cls), "", cls, shown_above)
        parts += _sections(own, titles)
    return "\n\n".join((*(part.strip() for part in parts), _environment(classes))) + "\n"


def class_sections(title: str, cls: SettingsClass) -> list[str]:
    """Return the sections of a class of settings and of those in it, as `page` has them."""
    return list(_sections(Section(title, "", cls, ()), {}))


class Section:
    """One class's settings, under a path."""

    def __init__(self, title: str, path: str, cls: SettingsClass, without: Sequence[str]) -> None:
        self.title = title
        self.path = path
        self.cls = cls
        self.fields = {name: field for name, field in fields_of(cls).items() if name not in without}
        self.meanings = _meanings(cls)


def _meanings(cls: SettingsClass) -> dict[str, str]:
    """Return the strings below the fields of a class and its bases, each in one line.

    Pydantic reads them too, but then each start of a process parses the source of all settings.
    """
    found: dict[str, str] = {}
    own = itertools.takewhile(lambda each: each not in (Settings, object), cls.__mro__)
    for base in reversed(list(own)):
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in itertools.pairwise(definition.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(inspect.cleandoc(text).split())
    return found


def _sections(section: Section, titles: dict[SettingsClass, str]) -> Iterator[str]:
    """Yield the text of the section, then those of nested settings without a section yet."""
    inner: list[Section] = []
    rows = []
    for name, field in section.fields.items():
        path, parts = section.path + name, classes_in(field.annotation)
        for part in parts:
            if part not in titles:
                titles[part] = path + _kind(part)
                inner.append(Section(f"`{titles[part]}`", f"{path}.", part, ()))
        rows.append(_row(path, field, section.meanings.get(name, ""), [titles[each] for each in parts]))
    about = "" if section.cls is DaemonSettings else _about(section.cls)
    level = "###" if section.path else "##"
    yield "\n".join([f"{level} {section.title}", "", *([about, ""] if about else []), TABLE, *rows])
    for each in inner:
        yield from _sections(each, titles)


def _row(path: str, field: FieldInfo, meaning: str, inside: Sequence[str]) -> str:
    cells = (f"`{path}`", _type(field, inside), _default(field, bool(inside)), meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(field: FieldInfo, inside: Sequence[str]) -> str:
    if inside:
        return "see " + ", ".join(f"`{each}`" for each in inside)
    bounds = [
        f"{sign} {plain(getattr(rule, name))}"
        for rule in field.metadata
        for kind, name, sign in _BOUNDS
        if isinstance(rule, kind)
    ]
    bounds += [_least(field, rule.min_length) for rule in field.metadata if isinstance(rule, MinLen)]
    return ", ".join((_named(field.annotation), *bounds))


def _least(field: FieldInfo, length: int) -> str:
    return "not empty" if field.annotation is str and length == 1 else f"at least {length}"


def _named(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _named(arguments[0])
    if origin is Literal:
        return " | ".join(f"`{each}`" for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_named(each) for each in arguments if each is not types.NoneType)
    if origin is tuple:
        return f"list of {_named(arguments[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return "mapping"
    return PLAIN[annotation]


def _default(field: FieldInfo, whole: bool) -> str:
    if field.is_required():
        return "**required**"
    if whole:
        chosen = field.get_default(call_default_factory=True)
        return f"`kind: {chosen.kind}`" if hasattr(chosen, "kind") else ""
    value = field.get_default(call_default_factory=True)
    if value is None or value in ("", {}, ()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Mapping):
        value = ", ".join(f"{key}: {of}" for key, of in value.items())
    elif isinstance(value, tuple):
        value = ", ".join(map(str, value))
    elif isinstance(value, float):
        value = plain(value)
    return f"`{value}`"


def _kind(cls: SettingsClass) -> str:
    field = fields_of(cls).get("kind")
    return "" if field is None else f" (kind: {field.default})"


def _about(cls: SettingsClass) -> str:
    """Return the docstring of a class in one line, without its remarks for developers."""
    text = " ".join(inspect.cleandoc(cls.__dict__.get("__doc__") or "").split("\n\n")[0].split())
    return _FOR_DEVELOPERS.sub("", text).rstrip(" .") + "." if text else ""


def _environment(classes: Sequence[type[ProcessSettings]]) -> str:
    users: dict[tuple[str, str, str], list[str]] = {}
    for cls in classes:
        for target in variable_targets(cls):
            key = target.variable.name, target.variable.flag, target.dotted
            users.setdefault(key, []).append(_daemon(cls))
    daemons = [_daemon(cls) for cls in classes if issubclass(cls, DaemonSettings)]
    rows = [
        f"| `{variable}` | `{flag}` | `{path}` | {_whose(whose, daemons)} |"
        for (variable, flag, path), whose in users.items()
    ]
    return "\n".join(
        (
            "## Environment variables and flags",
            "",
            "| variable | flag | setting | of |",
            "|---|---|---|---|",
            *rows,
        )
    )


def _whose(users: Sequence[str], daemons: Sequence[str]) -> str:
    if not set(daemons) <= set(users):
        return ", ".join(users)
    return ", ".join(["every daemon", *(user for user in users if user not in daemons)])


def _daemon(cls: type[ProcessSettings]) -> str:
    """Return the name of the process: `jobmgr` for jobmgr.config, `web` for peloton.web.config."""
    return cls.__module__.removeprefix("peloton.").partition(".")[0]


VARIABLES = '''"""Environment variables that are settings of processes. Made by `make settings`."""

NAMES = frozenset(
    {
%s    }
)
'''


def variables(classes: Sequence[type[ProcessSettings]]) -> str:
    """Return the module `peloton.config.variables`: the names, for who must not import the classes."""
    names = {target.variable.name for cls in classes for target in variable_targets(cls)}
    return VARIABLES % "".join(f'        "{name}",\n' for name in sorted(names))


def main(argv: Sequence[str]) -> int:
    """Print the reference of the given classes; after --variables, the module of their variables."""
    made = variables if argv[:1] == ["--variables"] else page
    names = [name.partition(":") for name in argv if name != "--variables"]
    sys.stdout.write(made([getattr(importlib.import_module(module), name) for module, _, name in names]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
