"""The arguments of spark-submit, and what Peloton makes of them.

spark-submit takes Peloton's master for a local one, and ignores for such a master how many executors there
shall be and how large: these options become settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from click import NoSuchOption

from peloton.errors import InvalidArgument, NotFound

MASTER_SCHEME = "local://peloton://"
SWITCHES = frozenset(
    ("--help", "-h", "--load-spark-defaults", "--supervise", "--usage-error", "--verbose", "-v", "--version")
)
"""Options of spark-submit without a value."""
VALUED = frozenset(
    (
        *("--archives", "--class", "--conf", "-c", "--deploy-mode", "--driver-class-path", "--driver-cores"),
        *("--driver-java-options", "--driver-library-path", "--driver-memory", "--exclude-packages"),
        *("--executor-cores", "--executor-memory", "--files", "--jars", "--keytab", "--kill", "--master"),
        *("--name", "--num-executors", "--packages", "--principal", "--properties-file", "--proxy-user"),
        *("--py-files", "--queue", "--remote", "--repositories", "--status", "--total-executor-cores"),
    )
)
"""Options of spark-submit with a value."""
SETTINGS: Mapping[str, str] = {
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--driver-cores": "spark.driver.cores",
    "--queue": "spark.peloton.pool",
}
"""Options that spark-submit has for some cluster managers only, as settings."""
OF_THE_JOB = frozenset(("--conf", "-c", "--properties-file", "--name", "--load-spark-defaults"))
"""Options of which the job of a driver on the cluster is made."""
REFUSED: Mapping[str, str] = {
    "--kill": "`peloton job stop JOB`",
    "--status": "`peloton job status JOB`",
    "--supervise": "nothing: a driver that is preempted or loses its host runs again by itself",
    "--remote": "spark-submit itself, for Spark Connect",
}
"""Options that have no sense here, and what to use instead."""
TOTAL_CORES = "--total-executor-cores"
CLUSTER, CLIENT = "cluster", "client"
ENTRY = "peloton.spark.ClusterSubmit"
JAR = "peloton-spark-*.jar"
ARCHIVE = "peloton-executor.jsa"
"""The archive of classes in Spark's folder, which executors use where it is there."""
ARCHIVE_OPTION = "-XX:ArchiveClassesAtExit"
EXECUTOR_MB = 1024


@dataclass(frozen=True, slots=True)
class Submission:
    """What spark-submit is asked for."""

    master: str
    mode: str
    """CLUSTER or CLIENT: where the driver runs."""
    options: Sequence[tuple[str, ...]]
    """Options of spark-submit with their values, without master and mode."""
    program: Sequence[str]
    """The program with its arguments."""

    def client_command(self, home: Path) -> list[str]:
        """Return the command of a driver that runs here."""
        options = (word for option in self.options for word in option)
        return [str(home / "bin" / "spark-submit"), "--master", self.master, *options, *self.program]

    def archive_command(self, home: Path, archive: Path) -> list[str]:
        """Return the command that runs the program with one executor beside it, which leaves an archive.

        No cluster is needed: spark-submit starts the executor.
        """
        memory, java = EXECUTOR_MB, f"{ARCHIVE_OPTION}={archive}"
        values = [("memory", f"{memory}m"), ("cores", "1"), ("extraJavaOptions", java)]
        own = [word for name, value in values for word in ("--conf", f"spark.executor.{name}={value}")]
        master = f"local-cluster[1,1,{memory}]"
        options = (word for option in self.options for word in option)
        return [str(home / "bin" / "spark-submit"), "--master", master, *options, *own, *self.program]

    def cluster_command(self, home: Path, folder: str, environment: Mapping[str, str]) -> list[str]:
        """Return the command that creates the job of a driver on the cluster, and prints its id.

        spark-submit runs it, since it knows all places of settings. `folder` is where the driver runs. Raises
        NotFound where Spark has no jar of Peloton.
        """
        names = dict(option for option in self.options if len(option) == 2)
        name = names.get("--name", PurePosixPath(self.program[0]).name)
        options = [*self.options, *_python(environment, self.options)]
        outer = [word for option in _of_the_job(options) for word in option]
        inner = [word for option in options for word in option]
        command = [str(home / "bin" / "spark-submit"), "--master", "local", *outer, "--name", name]
        command += ["--class", ENTRY, str(jar(home)), self.master, folder]
        return [*command, "--name", name, *inner, "--", *self.program]


def _of_the_job(options: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield the options that the job is made of. A driver's memory is not that of the program that asks."""
    for option in options:
        if option[0] == "--driver-memory":
            yield "--conf", f"spark.driver.memory={option[1]}"
        elif option[0] in OF_THE_JOB and option[0] != "--name":
            yield option


def _python(environment: Mapping[str, str], options: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield the Python that the variables name, which the driver on the cluster does not have."""
    given = {option[1].partition("=")[0] for option in options if option[0] in ("--conf", "-c")}
    if (python := environment.get("PYSPARK_PYTHON")) and "spark.pyspark.python" not in given:
        yield "--conf", f"spark.pyspark.python={python}"


def parse(words: Sequence[str], master: str) -> Submission:
    """Return what the arguments of spark-submit ask for. Raises InvalidArgument and NoSuchOption."""
    mode, total = CLIENT, 0
    options: list[tuple[str, ...]] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, value = _option(rest)
        if name in REFUSED:
            raise InvalidArgument(name, value or "given", f"left out: use {REFUSED[name]}")
        if value is None:
            options.append((name,))
        elif name == "--master":
            master = _master(value)
        elif name == "--deploy-mode":
            mode = _mode(value)
        elif name == TOTAL_CORES:
            total = _count(name, value)
        elif name in SETTINGS:
            options.append(("--conf", f"{SETTINGS[name]}={value}"))
        else:
            options.append((name, value))
    if total:
        options.append(("--conf", f"spark.executor.instances={_instances(total, options)}"))
    if not rest:
        raise InvalidArgument("program", "", "a Python file or a jar, after the options")
    return Submission(master, mode, options, rest)


def _option(rest: list[str]) -> tuple[str, str | None]:
    """Take an option, and its value if it has one, from the words."""
    name, equals, value = rest.pop(0).partition("=")
    if name in SWITCHES:
        return name, None
    if name not in VALUED:
        raise NoSuchOption(name, possibilities=get_close_matches(name, VALUED | SWITCHES))
    if equals:
        return name, value
    if not rest:
        raise InvalidArgument(name, "", "followed by its value")
    return name, rest.pop(0)


def _master(value: str) -> str:
    if not value.removeprefix("local://").startswith("peloton://"):
        raise InvalidArgument("--master", value, "left out, or local://peloton://HOST:PORT")
    return value if value.startswith("local://") else f"local://{value}"


def _mode(value: str) -> str:
    if value not in (CLUSTER, CLIENT):
        raise InvalidArgument("--deploy-mode", value, "client (the driver runs here) or cluster")
    return value


def _count(name: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InvalidArgument(name, value, "a whole number, 1 or more")
    return int(value)


def _instances(total: int, options: Sequence[tuple[str, ...]]) -> int:
    """Return how many executors have so many cores, at least one."""
    cores = 1
    for option in options:
        name, _, value = option[-1].partition("=")
        if option[0] in ("--conf", "-c") and name == "spark.executor.cores":
            cores = _count(name, value)
    return max(1, total // cores)


def jar(home: Path) -> Path:
    """Return Peloton's jar in Spark's folder. Raises NotFound."""
    found = sorted((home / "jars").glob(JAR))
    if len(found) != 1:
        names = ", ".join(each.name for each in found) or "none"
        raise NotFound(
            f"{home / 'jars'} has to have one {JAR}, and has {names}: put that of build/clients/spark for "
            "this version of Spark there, on all hosts"
        )
    return found[0]


def spark_home(environment: Mapping[str, str], find: Callable[[str], str | None]) -> Path:
    """Return the folder of Spark: SPARK_HOME, or that of the spark-submit on the path.

    Raises NotFound where there is none.
    """
    if named := environment.get("SPARK_HOME"):
        if not (Path(named) / "bin" / "spark-submit").is_file():
            raise NotFound(f"SPARK_HOME: {named} has no bin/spark-submit: it is not the folder of Spark")
        return Path(named)
    program = find("spark-submit")
    if program is None:
        raise NotFound("there is no Spark here: set SPARK_HOME, or have spark-submit on the path")
    above = Path(program).resolve().parents[1]
    for folder in (above, *above.glob("lib/python3*/site-packages/pyspark")):
        if (folder / "jars").is_dir():
            return folder
    raise NotFound(f"{program} is not in a folder of Spark: set SPARK_HOME")
