"""Publishing the clients to folders, from what a build has left."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from peloton import __version__
from tools import publish
from tools.clients import version

MODULE = "git.example.com/Peloton/client"
PAGE = Path(__file__).parents[3] / "docs" / "clients.md"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    output = tmp_path / "build" / "clients"
    monkeypatch.setattr(publish, "OUTPUT", output)
    (output / "python").mkdir(parents=True)
    (output / "python" / "peloton_client-1.2.3-py3-none-any.whl").write_bytes(b"wheel")
    (output / "go" / "api").mkdir(parents=True)
    (output / "go" / "go.mod").write_text("module peloton.internal/client\n\ngo 1.24.0\n")
    (output / "go" / "api" / "a.go").write_text('package a\n\nimport "peloton.internal/client/b"\n')
    return output


def test_the_page_of_clients_names_the_version_that_a_build_leaves() -> None:
    named = re.findall(r"peloton-client(?:-|</artifactId>\s*<version>)(\d+\.\d+\.\d+)", PAGE.read_text())
    assert len(named) == 2 and set(named) == {version()}


@pytest.mark.parametrize(
    ("file", "constant"),
    [
        ("go/config.go", r'\tVersion = "([^"]+)"'),
        ("java/src/main/java/peloton/client/ClientBuilder.java", r'String VERSION = "([^"]+)"'),
    ],
)
def test_the_calls_of_a_client_carry_the_version(file: str, constant: str) -> None:
    found = re.search(constant, (PAGE.parents[1] / "clients" / file).read_text())
    assert found is not None and found[1] == version() == __version__


def test_a_folder_of_wheels_is_an_index(built: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert publish.main({"PYTHON_INDEX": str(index)}) == 0
    assert 'href="peloton-client/"' in (index / "index.html").read_text()
    links = (index / "peloton-client" / "index.html").read_text()
    assert 'href="peloton_client-1.2.3-py3-none-any.whl"' in links
    assert (index / "peloton-client" / "peloton_client-1.2.3-py3-none-any.whl").read_bytes() == b"wheel"


def test_a_folder_of_go_modules_is_a_proxy(built: Path, tmp_path: Path) -> None:
    proxy = tmp_path / "proxy"
    assert publish.main({"GO_PROXY": str(proxy), "GO_MODULE": MODULE}) == 0
    folder, name = proxy / "git.example.com/!peloton/client/@v", f"v{version()}"
    assert (folder / "list").read_text() == f"{name}\n"
    assert json.loads((folder / f"{name}.info").read_text())["Version"] == name
    assert (folder / f"{name}.mod").read_text() == f"module {MODULE}\n\ngo 1.24.0\n"
    with zipfile.ZipFile(folder / f"{name}.zip") as archive:
        assert f"{MODULE}@{name}/LICENSE" in archive.namelist()
        assert f'"{MODULE}/b"' in archive.read(f"{MODULE}@{name}/api/a.go").decode()


def test_a_version_is_published_once(built: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the same again changes nothing
        assert publish.main({"GO_PROXY": str(tmp_path / "go"), "PYTHON_INDEX": str(tmp_path / "index")}) == 0
    (built / "go" / "new.go").write_text("package peloton\n")
    with pytest.raises(SystemExit, match="with another content"):
        publish.main({"GO_PROXY": str(tmp_path / "go")})
    (built / "python" / "peloton_client-1.2.3-py3-none-any.whl").write_bytes(b"another")
    with pytest.raises(SystemExit, match="with another content"):
        publish.main({"PYTHON_INDEX": str(tmp_path / "index")})


@pytest.mark.parametrize(
    "given",
    [{}, {"GO_PROXY": "x", "GO_MODULE": "no module"}, {"PYTHON_INDEX": "x", "JAVA_GROUP": "A group"}],
)
def test_what_is_wrong_is_told(given: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert publish.main(given) == 2
    assert "PYTHON_INDEX" in capsys.readouterr().err


def test_a_repository_is_deployed_to_with_the_group(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (built / "java").mkdir()
    for name in ("pom.xml", "bom.xml"):
        (built / "java" / name).write_text("<groupId>peloton.internal</groupId>")
    ran: list[list[str]] = []

    def run(command: list[str], *, cwd: Path, check: bool) -> None:
        ran.append(command)
        pom = next(each for each in command if each.startswith("-DpomFile=")).removeprefix("-DpomFile=")
        assert Path(pom).read_text() == "<groupId>com.example</groupId>"

    monkeypatch.setattr("tools.publish.subprocess.run", run)
    assert publish.main({"MAVEN_REPOSITORY": str(tmp_path / "maven"), "JAVA_GROUP": "com.example"}) == 0
    assert len(ran) == 2
    assert all(f"-Durl={(tmp_path / 'maven').as_uri()}" in command for command in ran)
