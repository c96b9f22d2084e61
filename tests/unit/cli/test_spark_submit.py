"""What `peloton spark submit` makes of the arguments of spark-submit."""

from __future__ import annotations

from pathlib import Path

import pytest
from click import NoSuchOption
from click.testing import CliRunner

from peloton.cli.commands.spark import spark
from peloton.cli.spark_submit import MASTER_SCHEME, jar, parse, spark_home
from peloton.errors import InvalidArgument, NotFound, Unavailable

SPARK = Path("/opt/spark")


def test_a_driver_here_gets_all_options_as_settings() -> None:
    words = [
        "--num-executors",
        "4",
        "--executor-memory=2g",
        "--queue",
        "/team",
        "--verbose",
        "a.py",
        "--conf",
        "x",
    ]
    command = parse(words, MASTER_SCHEME).client_command(SPARK)
    assert command[:3] == ["/opt/spark/bin/spark-submit", "--master", "local://peloton://"]
    settings = ["spark.executor.instances=4", "spark.executor.memory=2g", "spark.peloton.pool=/team"]
    assert [word for word in command if word.startswith("spark.")] == settings
    assert command[-4:] == ["--verbose", "a.py", "--conf", "x"]


@pytest.mark.parametrize(
    ("words", "instances"),
    [
        (["--total-executor-cores", "8", "--executor-cores", "3"], 2),
        (["--total-executor-cores", "8"], 8),
        (["--total-executor-cores", "1", "--conf", "spark.executor.cores=4"], 1),
    ],
)
def test_cores_in_all_are_executors(words: list[str], instances: int) -> None:
    assert f"spark.executor.instances={instances}" in parse([*words, "a.py"], "m").client_command(SPARK)


def test_a_driver_on_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "peloton-spark-4.1-1.0.jar").touch()
    words = ["--deploy-mode", "cluster", "--driver-memory", "2g", "--py-files", "b.py", "dir/a.py", "--", "1"]
    submission = parse(words, "local://peloton://h:1")
    command = submission.cluster_command(tmp_path, "/work", {"PYSPARK_PYTHON": "/py"})
    entry = command.index("peloton.spark.ClusterSubmit")
    outer, inner = command[:entry], command[entry + 2 :]
    assert "spark.driver.memory=2g" in outer
    assert "--driver-memory" not in outer  # it is not that of the program which submits
    assert "--py-files" not in outer
    assert inner[:4] == ["local://peloton://h:1", "/work", "--name", "a.py"]
    assert inner[4:] == [
        *("--driver-memory", "2g", "--py-files", "b.py", "--conf", "spark.pyspark.python=/py"),
        *("--", "dir/a.py", "--", "1"),
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "program: '' is not a Python file or a jar, after the options"),
        (["--conf"], "--conf: '' is not followed by its value"),
        (["--master", "yarn", "a.py"], "--master: 'yarn' is not left out, or local://peloton://HOST:PORT"),
        (
            ["--deploy-mode", "x", "a.py"],
            "--deploy-mode: 'x' is not client (the driver runs here) or cluster",
        ),
        (
            ["--total-executor-cores", "x", "a.py"],
            "--total-executor-cores: 'x' is not a whole number, 1 or more",
        ),
        (["--kill", "1"], "--kill: '1' is not left out: use `peloton job stop JOB`"),
    ],
)
def test_what_is_wrong(words: list[str], says: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse(words, MASTER_SCHEME)
    assert str(raised.value) == says


def test_an_option_that_is_none() -> None:
    with pytest.raises(NoSuchOption) as raised:
        parse(["--num-executor", "4", "a.py"], MASTER_SCHEME)
    assert "--num-executors" in raised.value.format_message()


def test_the_folder_of_spark(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "python3.11" / "site-packages" / "pyspark"
    (package / "jars").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    assert spark_home({}, lambda name: str(tmp_path / "bin" / name)) == package
    assert spark_home({"SPARK_HOME": str(tmp_path)}, lambda name: None) == tmp_path
    with pytest.raises(NotFound, match="SPARK_HOME: /nowhere has no bin/spark-submit"):
        spark_home({"SPARK_HOME": "/nowhere"}, lambda name: None)
    with pytest.raises(NotFound, match="set SPARK_HOME, or have spark-submit on the path"):
        spark_home({}, lambda name: None)
    with pytest.raises(NotFound, match="has none: put that of build/clients/spark"):
        jar(package)


def test_an_archive_is_made_by_one_executor_beside_the_program(tmp_path: Path) -> None:
    words = ["--py-files", "b.py", "--conf", "spark.executor.extraJavaOptions=-Dmine", "a.py", "7"]
    command = parse(words, MASTER_SCHEME).archive_command(SPARK, tmp_path / "new.jsa")
    assert command[:3] == ["/opt/spark/bin/spark-submit", "--master", "local-cluster[1,1,1024]"]
    assert command[-2:] == ["a.py", "7"]
    java = [word for word in command if word.startswith("spark.executor.extraJavaOptions=")]
    assert java[-1] == f"spark.executor.extraJavaOptions=-XX:ArchiveClassesAtExit={tmp_path / 'new.jsa'}"


SUBMIT = """#!/bin/sh
for word in "$@"; do case "$word" in *ArchiveClassesAtExit=*) archive="${word##*=}" ;; esac; done
%s
"""


def fake_spark(folder: Path, body: str) -> None:
    """Make a folder of Spark whose spark-submit runs a shell's lines; they know of $archive."""
    for name in ("bin", "jars"):
        (folder / name).mkdir(parents=True)
    submit = folder / "bin" / "spark-submit"
    submit.write_text(SUBMIT % body)
    submit.chmod(0o755)


def test_an_archive_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor writes it after the end of spark-submit."""
    fake_spark(tmp_path / "spark", '(sleep 0.5; echo classes > "$archive") &')
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    done = CliRunner().invoke(spark, ["archive", "a.py"])
    archive = tmp_path / "spark" / "peloton-executor.jsa"
    assert (done.exit_code, done.output) == (0, f"{archive}\n")
    assert archive.read_text() == "classes\n"
    assert not archive.with_name("peloton-executor.jsa.new").exists()


@pytest.mark.parametrize(("body", "code"), [("echo broken >&2; exit 3", 3), ("echo broken >&2", 0)])
def test_an_archive_that_is_not_made_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, code: int
) -> None:
    fake_spark(tmp_path / "spark", body)
    old = tmp_path / "spark" / "peloton-executor.jsa"
    old.write_text("old")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    done = CliRunner().invoke(spark, ["archive", "a.py"])
    assert isinstance(done.exception, Unavailable)
    assert f"spark-submit ended with {code}, and its executor has left no archive" in str(done.exception)
    assert old.read_text() == "old"
