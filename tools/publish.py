"""Publish the clients that `make clients` has built: `make publish`, with what each language needs.

    PYTHON_INDEX       a folder, which becomes an index of files, or the URL of an index (needs twine)
    MAVEN_REPOSITORY   a folder or a URL; credentials are those of Maven's settings for MAVEN_SERVER
    GO_PROXY           the folder of a proxy of Go modules
    GO_MODULE          the path of the Go module, instead of peloton.internal/client
    JAVA_GROUP         the group id of the Java artifacts, instead of peloton.internal

What is not given is left out. The version is that of pyproject.toml.
"""

from __future__ import annotations

import datetime
import html
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from tools.clients import CLIENTS, GO_MODULE, JAVA_GROUP, OUTPUT, version

LINKS = "<!DOCTYPE html>\n<html><body>\n{}\n</body></html>\n"
DEPLOY = "org.apache.maven.plugins:maven-deploy-plugin:3.1.3:deploy-file"
GO_PATH = re.compile(r"[a-z0-9.-]+\.[a-z0-9.-]+(/[A-Za-z0-9._~-]+)*")
JAVA_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*")


def main(environment: Mapping[str, str]) -> int:
    """Publish what the environment names. Return 2 where it names nothing, or wrongly."""
    given = {name: value for name, value in environment.items() if value}
    if not {"PYTHON_INDEX", "MAVEN_REPOSITORY", "GO_PROXY"} & given.keys():
        print(__doc__, file=sys.stderr)
        return 2
    module, group = given.get("GO_MODULE", GO_MODULE), given.get("JAVA_GROUP", JAVA_GROUP)
    for name, value, form in (("GO_MODULE", module, GO_PATH), ("JAVA_GROUP", group, JAVA_NAME)):
        if not form.fullmatch(value):
            print(f"{name}: {value!r} is not like the one above", __doc__, sep="\n", file=sys.stderr)
            return 2
    if "GO_PROXY" in given:
        publish_go(Path(given["GO_PROXY"]), module)
    if "MAVEN_REPOSITORY" in given:
        publish_java(given["MAVEN_REPOSITORY"], group, given.get("MAVEN_SERVER", "company"))
    if "PYTHON_INDEX" in given:
        publish_python(given["PYTHON_INDEX"])
    return 0


def publish_python(index: str) -> None:
    """Put the wheels into the folder of an index, or upload them."""
    wheels = sorted((OUTPUT / "python").glob("*.whl"))
    if "://" in index:
        command = [sys.executable, "-m", "twine", "upload", "--repository-url", index, *map(str, wheels)]
        subprocess.run(command, check=True)
        return
    for wheel in wheels:
        folder = Path(index) / wheel.name.partition("-")[0].replace("_", "-")
        folder.mkdir(parents=True, exist_ok=True)
        _new(folder / wheel.name, wheel.read_bytes())
        _list(folder, [each.name for each in sorted(folder.glob("*.whl"))])
    _list(Path(index), [f"{each.name}/" for each in sorted(Path(index).iterdir()) if each.is_dir()])


def _list(folder: Path, names: list[str]) -> None:
    lines = (f'<a href="{quote(name)}">{html.escape(name.rstrip("/"))}</a><br>' for name in names)
    (folder / "index.html").write_text(LINKS.format("\n".join(lines)))


def publish_java(repository: str, group: str, server: str) -> None:
    """Deploy the jar with its sources and javadoc, and the bill of materials."""
    url = repository if "://" in repository else Path(repository).resolve().as_uri()
    stage = OUTPUT.parent / "publish-java"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    built = OUTPUT / "java"
    jar = built / f"peloton-client-{version()}"
    for name in ("pom.xml", "bom.xml"):
        own = f"<groupId>{JAVA_GROUP}</groupId>"
        (stage / name).write_text((built / name).read_text().replace(own, f"<groupId>{group}</groupId>"))
    for name, files in (
        ("pom.xml", {"file": f"{jar}.jar", "sources": f"{jar}-sources.jar", "javadoc": f"{jar}-javadoc.jar"}),
        ("bom.xml", {"file": str(stage / "bom.xml"), "packaging": "pom"}),
    ):
        settings = {"pomFile": str(stage / name), "url": url, "repositoryId": server, **files}
        options = [f"-D{key}={value}" for key, value in settings.items()]
        subprocess.run(["mvn", "-q", "-B", DEPLOY, *options], cwd=stage, check=True)


def publish_go(proxy: Path, module: str) -> None:
    """Write the module into the folder of a proxy, under its path."""
    escaped = re.sub("[A-Z]", lambda found: "!" + found[0].lower(), module)
    folder, name = proxy / escaped / "@v", f"v{version()}"
    folder.mkdir(parents=True, exist_ok=True)
    files = {path: _moved(text, module) for path, text in _go_files()}
    archive = OUTPUT.parent / "publish-go.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for path, content in files.items():
            # The same bytes each time: whoever takes a version again compares them.
            entry = zipfile.ZipInfo(f"{module}@{name}/{path}", (1980, 1, 1, 0, 0, 0))
            written.writestr(entry, content, zipfile.ZIP_DEFLATED)
    _new(folder / f"{name}.zip", archive.read_bytes())
    _new(folder / f"{name}.mod", files["go.mod"])
    if not (folder / f"{name}.info").exists():
        time = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        (folder / f"{name}.info").write_text(json.dumps({"Version": name, "Time": time}))
    known = sorted(each.stem for each in folder.glob("*.info"))
    (folder / "list").write_text("".join(f"{each}\n" for each in known))


def _go_files() -> Iterator[tuple[str, bytes]]:
    source = OUTPUT / "go"
    for path in sorted(source.rglob("*")):
        if path.is_file():
            yield path.relative_to(source).as_posix(), path.read_bytes()
    yield "LICENSE", (CLIENTS.parent / "LICENSE").read_bytes()


def _moved(content: bytes, module: str) -> bytes:
    return content.replace(GO_MODULE.encode(), module.encode())


def _new(file: Path, content: bytes) -> None:
    """Write a file of a version. A version that is there is never changed: raises SystemExit."""
    if file.exists() and file.read_bytes() != content:
        raise SystemExit(f"{file}: is there with another content: a version is published once; raise it")
    file.write_bytes(content)


if __name__ == "__main__":
    sys.exit(main(os.environ))
