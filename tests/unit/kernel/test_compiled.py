"""Which modules run: those of a checkout's sources, or compiled ones, and never some of each by mistake."""

from __future__ import annotations

import ast
import importlib.machinery
from pathlib import Path

import pytest

from peloton.compiled import (
    FOLDER,
    MODULES,
    PACKAGES,
    SUFFIX,
    CompiledModules,
    NotCompiled,
    SourceModules,
    choose,
    differences,
    digests_of,
    write_manifest,
)
from tools.extensions import PLAIN, ROOT, sources

SOURCE = "some/core.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """With one module, which is compiled."""
    (tmp_path / "some").mkdir()
    (tmp_path / SOURCE).write_text("A = 1")
    (tmp_path / "setup.py").touch()
    made = tmp_path / FOLDER / MODULES / "some"
    made.mkdir(parents=True)
    (made / f"core{SUFFIX}").touch()
    write_manifest(digests_of([SOURCE], tmp_path), tmp_path)
    return tmp_path


def test_a_checkout_runs_plain_unless_it_is_told_otherwise(checkout: Path) -> None:
    assert choose({}, checkout) is None
    assert choose({"PELOTON_COMPILED": "0"}, checkout) is None


def test_compiled_modules_are_found_before_the_sources(checkout: Path) -> None:
    finder = choose({"PELOTON_COMPILED": "1"}, checkout)
    assert isinstance(finder, CompiledModules)
    spec = finder.find_spec("some.core", None)
    assert spec is not None
    assert isinstance(spec.loader, importlib.machinery.ExtensionFileLoader)
    assert spec.origin == str(checkout / FOLDER / MODULES / "some" / f"core{SUFFIX}")
    assert finder.find_spec("some", None) is None


def test_what_was_compiled_of_other_sources_is_refused(checkout: Path) -> None:
    (checkout / SOURCE).write_text("A = 2")
    with pytest.raises(NotCompiled, match=r"but some/core.py has changed since: call `make compiled`"):
        choose({"PELOTON_COMPILED": "1"}, checkout)
    (checkout / SOURCE).unlink()
    assert differences(root=checkout) == ["some/core.py has changed since"]


def test_a_new_module_calls_for_a_new_build(checkout: Path) -> None:
    assert differences([SOURCE], checkout) == []
    assert differences([SOURCE, "some/new.py"], checkout) == ["some/new.py is not compiled"]


def test_without_a_build_and_with_that_of_another_python_it_refuses(checkout: Path) -> None:
    manifest = checkout / FOLDER / "manifest.json"
    manifest.write_text(manifest.read_text().replace(SUFFIX, ".cpython-39.so"))
    with pytest.raises(NotCompiled, match=r"is for .cpython-39.so, and this Python takes"):
        choose({"PELOTON_COMPILED": "1"}, checkout)
    manifest.unlink()
    with pytest.raises(NotCompiled, match="nothing is compiled"):
        choose({"PELOTON_COMPILED": "1"}, checkout)


def test_the_variable_is_0_or_1(checkout: Path) -> None:
    with pytest.raises(NotCompiled, match="'yes' is neither 0"):
        choose({"PELOTON_COMPILED": "yes"}, checkout)


def test_an_installed_one_runs_what_is_installed(checkout: Path) -> None:
    (checkout / "setup.py").unlink()
    assert choose({"PELOTON_COMPILED": "1"}, checkout) is None
    assert choose({}, checkout) is None


def test_an_installed_one_that_is_compiled_can_run_plain(checkout: Path) -> None:
    """Packages of others, which have sources beside extension modules too, stay as they are."""
    (checkout / "setup.py").unlink()
    for package in ("peloton", "cassandra"):
        (checkout / package).mkdir()
        for name in ("core.py", f"core{SUFFIX}", f"other{SUFFIX}", "plain.py"):
            (checkout / package / name).touch()
    finder = choose({"PELOTON_COMPILED": "0"}, checkout)
    assert isinstance(finder, SourceModules)

    def found(module: str) -> str | None:
        spec = finder.find_spec(module, [str(checkout / module.partition(".")[0])])
        return None if spec is None else spec.origin

    assert found("peloton.core") == str(checkout / "peloton" / "core.py")
    assert found("cassandra.core") is None
    assert found("peloton.other") is None, "it has no source"
    assert found("peloton.plain") is None
    assert found("peloton.missing") is None
    assert finder.find_spec("peloton", None) is None


def test_packages_with_compiled_modules_are_known() -> None:
    assert {path.partition("/")[0] for group in sources().values() for path in group} == PACKAGES


def test_what_is_compiled_is_there_and_without_coroutines() -> None:
    paths = [path for group in sources().values() for path in group]
    assert len(paths) == len(set(paths)) > 50
    assert all((ROOT / path).exists() for path in PLAIN)
    for path in paths:
        kinds = {type(node) for node in ast.walk(ast.parse((ROOT / path).read_text()))}
        assert not kinds & {ast.AsyncFunctionDef, ast.Await}, path
