"""The images of others that the Dockerfile and docker-compose.yml name.

The tests' own engine asks no public registry: what stands for each image is made once, under its name, and
kept in the cache as the folder of a registry. They have of the public ones what is used here: Debian 12 with
its Python; ZooKeeper and Cassandra from the Maven artifacts of the minicluster. Those of Mesos are not made.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from minicluster.servers import cassandra, zookeeper
from minicluster.servers.maven import Broken, jars
from tests.servers.engine.cache import folder
from tests.servers.engine.running import ROOT, Engine
from tools.images import images

RECIPES = Path(__file__).parent / "images"
NAMES = ("PYTHON_IMAGE", "ZOOKEEPER_IMAGE", "CASSANDRA_IMAGE")
JAVA = "peloton-tests-java"
_RECIPES_OF = {
    "PYTHON_IMAGE": ("python",),
    "ZOOKEEPER_IMAGE": ("python", "java", "zookeeper"),
    "CASSANDRA_IMAGE": ("python", "java", "cassandra"),
}
LONGEST_BASE = 1800.0
"""Seconds for Debian's packages on a busy machine."""


def base_images(engine: Engine) -> dict[str, str]:
    """Pull every image of NAMES; make what is missing before. Return their digests by variable.

    Raise Missing without Java or Maven, Broken where one cannot be made or pulled.
    """
    names = images(ROOT)
    if engine.own:
        with _cache_locked():
            _make_missing(engine, {each: names[each] for each in NAMES})
    return {each: engine.pulled(names[each]) for each in NAMES}


def _make_missing(engine: Engine, names: Mapping[str, str]) -> None:
    for variable, make in _MAKERS.items():
        name, marker = names[variable], folder() / f"{variable}.recipe"
        recipe = f"{name} {_recipe(variable)}"
        if not marker.exists() or marker.read_text() != recipe:
            make(engine, name)
            kept = f"{engine.registry}/library/{name}"
            engine.must("tag", name, kept)
            engine.must("push", "--quiet", kept)
            engine.must("rmi", name, kept)
            marker.write_text(recipe)
    if _exists(engine, JAVA):
        engine.must("rmi", JAVA)


def _recipe(variable: str) -> str:
    """Return a digest of what an image is made from; newer packages are no reason to make it again."""
    found = hashlib.sha256()
    for file in sorted(file for each in _RECIPES_OF[variable] for file in (RECIPES / each).iterdir()):
        found.update(file.read_bytes())
    versions = {"ZOOKEEPER_IMAGE": zookeeper.ARTIFACTS, "CASSANDRA_IMAGE": cassandra.ARTIFACTS}
    found.update(repr(versions.get(variable)).encode())
    if variable == "CASSANDRA_IMAGE":
        found.update(Path(cassandra.__file__).read_bytes())
    return found.hexdigest()


def _make_python(engine: Engine, name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="peloton-base-") as made:
        target = Path(made) / "root"
        _run("unshare", "--mount", str(RECIPES / "python" / "make"), str(target))
        archive = Path(made) / "root.tar"
        _run("tar", "--create", "--file", str(archive), "--directory", str(target), ".")
        engine.must("import", "--change", 'CMD ["python3"]', str(archive), name)


def _make_zookeeper(engine: Engine, name: str) -> None:
    with _context("zookeeper") as context:
        _copy_jars(zookeeper.ARTIFACTS, context)
        _build(engine, context, name, _java(engine))


def _make_cassandra(engine: Engine, name: str) -> None:
    with _context("cassandra") as context:
        library = _copy_jars(cassandra.ARTIFACTS, context)
        server = cassandra.Server(Path("/var/lib/cassandra"), 9042, 7000)
        (context / "conf").mkdir()
        cassandra.configure(cassandra.Server(context / "conf", server.port, server.storage_port))
        conf = context / "conf" / "cassandra.yaml"
        conf.write_text(conf.read_text().replace(str(context / "conf"), str(server.folder)))
        options = "\n".join(f'"{each}"' for each in cassandra.options(server, library))
        options = options.replace(str(library), "/opt/cassandra")
        options = options.replace("/var/lib/cassandra/cassandra.yaml", "/conf/cassandra.yaml")
        options = options.replace("/var/lib/cassandra/logback.xml", "/opt/conf/logback.xml")
        options = options.replace("-Djava.io.tmpdir=/var/lib/cassandra", "-Djava.io.tmpdir=/tmp")
        (context / "conf" / "java").write_text(options)
        _build(engine, context, name, _java(engine))


_MAKERS: Mapping[str, Callable[[Engine, str], None]] = {
    "PYTHON_IMAGE": _make_python,
    "ZOOKEEPER_IMAGE": _make_zookeeper,
    "CASSANDRA_IMAGE": _make_cassandra,
}


def _java(engine: Engine) -> str:
    if not _exists(engine, JAVA):
        base = images(ROOT)["PYTHON_IMAGE"]
        engine.pulled(base)
        _build(engine, RECIPES / "java", JAVA, base)
    return JAVA


def _exists(engine: Engine, image: str) -> bool:
    return engine.docker("image", "inspect", image).returncode == 0


@contextmanager
def _context(recipe: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="peloton-image-") as made:
        context = Path(made) / recipe
        shutil.copytree(RECIPES / recipe, context)
        yield context


def _copy_jars(artifacts: tuple[str, ...], context: Path) -> Path:
    target = context / "jars"
    shutil.copytree(
        jars(artifacts), target, ignore=lambda _, names: {n for n in names if not n.endswith(".jar")}
    )
    return target


def _build(engine: Engine, context: Path, name: str, base: str) -> None:
    # Containers of the build reach the packages' servers by the network of the machine.
    engine.must(
        *("build", "--network", "host", "--build-arg", f"BASE={base}", "--tag", name, str(context)),
        environment={"DOCKER_BUILDKIT": "0"},
        seconds=LONGEST_BASE,
    )


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_BASE, check=False)
    if done.returncode:
        raise Broken(f"{' '.join(command)}: {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")


@contextmanager
def _cache_locked() -> Iterator[None]:
    with (folder() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
