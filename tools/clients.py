"""Generate the stubs of the clients in other languages, and leave each client in build/clients.

    python -m tools.clients go           # the Go module
    python -m tools.clients python       # the wheels of the Python client, and of what is built on it
    python -m tools.clients java         # the jar of the Java client, with its sources and its POM
    python -m tools.clients spark        # a jar for each version of Spark, which holds the Java client
    python -m tools.clients table        # write clients/calls.json, and the table in the docs

Nothing that is generated is committed.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from grpc_tools import protoc

from peloton.leaders import IDEMPOTENT

ROOT = Path(__file__).resolve().parents[1]
PROTO = ROOT / "proto"
CLIENTS = ROOT / "clients"
OUTPUT = ROOT / "build" / "clients"
BIN = ROOT / "build" / "bin"
CALLS = CLIENTS / "calls.json"
ON_PYTHON = ("python-names", "dask", "airflow")
"""Folders of wheels that are built on the Python client: its older names, and parts of other projects."""
PYTHON_STUBS = ("python", "mypy", "grpc_python")
PAGE = ROOT / "docs" / "clients.md"
BEGIN, END = "<!-- calls: begin -->", "<!-- calls: end -->"
GO_MODULE = "peloton.internal/client"
JAVA_GROUP = "peloton.internal"
VERSION_HERE = "0.0.0"
"""The version in the sources of the Java and Python clients, which that of pyproject.toml replaces."""
GO_TOOLS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
)


def main(arguments: Sequence[str]) -> int:
    """Build what the arguments name."""
    for name in arguments:
        BUILDS[name]()
    return 0


def version() -> str:
    """Return the version of all that is released."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def protos() -> list[Path]:
    """Return the files of the public interface, relative to proto/."""
    files = sorted(path.relative_to(PROTO) for path in (PROTO / "peloton" / "api").rglob("*.proto"))
    return [*files, Path("mesos/v1/mesos.proto")]


def services() -> Iterator[ServiceDescriptor]:
    """Yield the public services."""
    for file in protos():
        module = import_module(".".join(file.with_suffix("").parts) + "_pb2")
        yield from module.DESCRIPTOR.services_by_name.values()


def rules() -> Mapping[str, str]:
    """Return for each public method when it may be repeated though it may have been carried out.

    `always`; `never`; else the field that must be set: it makes the second time change nothing.
    """
    methods = (method for service in services() for method in service.methods)
    return {f"{method.containing_service.full_name}/{method.name}": _rule(method) for method in methods}


def _rule(method: MethodDescriptor) -> str:
    fields = method.input_type.fields_by_name
    if IDEMPOTENT.match(method.name):
        return "always"
    if "version" in fields and fields["version"].message_type is not None:
        return "version"
    if method.name.startswith("Create"):
        return next((name for name in ("id", "job_id") if name in fields), "never")
    return "never"


def write_table() -> None:
    """Write the table that the clients in other languages read, and the one in the docs."""
    CALLS.write_text(json.dumps(rules(), indent=2) + "\n")
    text = PAGE.read_text()
    PAGE.write_text(text.partition(BEGIN)[0] + section() + text.partition(END)[2])


def section() -> str:
    """Return the table of the docs, with its markers: a row for each service."""
    rows: dict[str, dict[str, list[str]]] = {}
    for name, rule in rules().items():
        service, method = name.removeprefix("peloton.api.").split("/")
        rows.setdefault(service, {}).setdefault(rule, []).append(method)
    lines = ["| service | repeated | where an id or a version is given | not repeated |", "|---|---|---|---|"]
    for service, held in rows.items():
        given = [f"{name} (`{rule}`)" for rule in ("id", "job_id", "version") for name in held.get(rule, ())]
        cells = [held.get("always", ()), given, held.get("never", ())]
        lines.append(f"| {service} | {' | '.join(', '.join(cell) or '–' for cell in cells)} |")
    return "\n".join((BEGIN, *lines, END))


def build_go() -> None:
    """Generate the stubs beside the sources, and copy the module to build/clients/go."""
    BIN.mkdir(parents=True, exist_ok=True)
    for tool in GO_TOOLS:
        _run("go", "install", tool, cwd=BIN, env={"GOBIN": str(BIN), "GOFLAGS": "-buildvcs=false"})
    source, target = CLIENTS / "go", OUTPUT / "go"
    shutil.rmtree(source / "api", ignore_errors=True)
    options = [f"M{file}={_go_package(file)}" for file in protos()]
    arguments = [f"--plugin=protoc-gen-{name}={BIN / f'protoc-gen-{name}'}" for name in ("go", "go-grpc")]
    for name in ("go", "go-grpc"):
        arguments.append(f"--{name}_out={source}")
        arguments += [f"--{name}_opt={option}" for option in (f"module={GO_MODULE}", *options)]
    _protoc(arguments)
    shutil.copyfile(CALLS, source / "calls.json")
    _copy(source, target)


def build_java() -> None:
    """Make the jar of the Java client."""
    project, target = CLIENTS / "java", OUTPUT / "java"
    _run("mvn", "-q", "-B", "package", "-DskipTests", cwd=project)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in (project / "target").glob(f"peloton-client-{VERSION_HERE}*.jar"):
        shutil.copy(file, target / file.name.replace(VERSION_HERE, version()))
    for name in ("pom.xml", "bom.xml"):
        text = (project / name).read_text()
        (target / name).write_text(text.replace(f"<version>{VERSION_HERE}<", f"<version>{version()}<"))
    print(target.relative_to(ROOT))


def build_spark() -> None:
    """Make the jars of Spark's cluster manager; the Java client is built on the way."""
    project, target = CLIENTS / "spark", OUTPUT / "spark"
    unneeded = ("-Dmaven.javadoc.skip=true", "-Dmaven.source.skip=true")
    _run("mvn", "-q", "-B", "package", "-DskipTests", *unneeded, cwd=project)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in project.glob(f"spark-*/target/peloton-spark-*-{VERSION_HERE}.jar"):
        shutil.copy(file, target / file.name.replace(VERSION_HERE, version()))
        print((target / file.name.replace(VERSION_HERE, version())).relative_to(ROOT))


def build_python() -> None:
    """Make the wheels: that of the client, its stubs and what they import; those that are built on it."""
    source, target = ROOT / "build" / "python-client", OUTPUT / "python"
    for folder in (source, target):
        shutil.rmtree(folder, ignore_errors=True)
    _stage(CLIENTS / "python", source)
    for file in _client_modules():
        copy = source / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    plugin = f"--plugin=protoc-gen-mypy={Path(sys.executable).parent / 'protoc-gen-mypy'}"
    _protoc(
        [plugin, *(f"--{kind}_out={'quiet:' if kind == 'mypy' else ''}{source}" for kind in PYTHON_STUBS)]
    )
    for folder in [path.parent for path in source.rglob("*_pb2.py")]:
        for part in (folder, *folder.parents):
            if source in part.parents:
                (part / "__init__.py").touch()
    folders = [source]
    for name in ON_PYTHON:
        folders.append(ROOT / "build" / f"{name}-client")
        shutil.rmtree(folders[-1], ignore_errors=True)
        _stage(CLIENTS / name, folders[-1])
    for folder in folders:
        command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", f"--wheel-dir={target}", ".")
        _run(*command, cwd=folder)
    print(*(str(file.relative_to(ROOT)) for file in target.glob("*.whl")))


def _stage(project: Path, folder: Path) -> None:
    """Copy the sources of a wheel, with the version."""
    shutil.copytree(project, folder)
    settings = folder / "pyproject.toml"
    settings.write_text(settings.read_text().replace(VERSION_HERE, version()))


def _client_modules() -> set[Path]:
    """Return the sources of `peloton.client`, of what they import, and of the packages they are in."""
    package = ROOT / "peloton"
    waiting = [*(package / "client").glob("*.py")]
    found = {package / "py.typed"}
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += [path for path in _imported(file) if path.exists()]
    return found


def _imported(file: Path) -> Iterator[Path]:
    """Yield the sources of the modules of `peloton` that a source imports, except for generated ones."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        for parts in (name.split(".") for name in names):
            if parts[0] == "peloton" and parts[1:2] not in (["api"], ["private"]):
                yield ROOT.joinpath(*parts).with_suffix(".py")
                yield from (ROOT.joinpath(*parts[:end], "__init__.py") for end in range(1, len(parts) + 1))


def _go_package(file: Path) -> str:
    """Return import path and name of a file's Go package: one for each protobuf package."""
    package = _package(file)
    if package[0] == "mesos":
        return f"{GO_MODULE}/api/mesos;mesos"
    below = list(package[2:])
    if below[-1] == "peloton":
        return f"{GO_MODULE}/api/{below[0]};{'api' + below[0]}"
    name = "".join(below[-2:]) if below[-1] == "svc" else below[-1]
    return f"{GO_MODULE}/api/{'/'.join(below)};{name}"


def _package(file: Path) -> tuple[str, ...]:
    lines = (PROTO / file).read_text().splitlines()
    line = next(line for line in lines if line.startswith("package "))
    return tuple(line.removeprefix("package ").rstrip("; ").split("."))


def _protoc(arguments: Sequence[str]) -> None:
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    files = [str(file) for file in protos()]
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", *arguments, *files]) != 0:
        raise SystemExit("protoc failed: see its message above")


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*_test.go"))
    print(target.relative_to(ROOT))


def _run(*command: str, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, check=True)


BUILDS = {
    "go": build_go,
    "python": build_python,
    "java": build_java,
    "spark": build_spark,
    "table": write_table,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
