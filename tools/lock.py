"""Write the locked requirements, with the hashes of all files that an index has of each version.

    make locks

`locks/build.txt` builds the package, `locks/compile.txt` builds it with compiled modules,
`locks/image.txt` is what the image holds, `locks/dev.txt` is what `make setup` installs,
`locks/workloads.txt` what `make demo-ml` and `make test-workloads` run, `locks/tensorflow.txt` and
`locks/ray.txt` what `make test-workloads` runs besides, `locks/dask.txt` and `locks/airflow.txt` what
the tests of the packages for Dask and Airflow run, `locks/spark-*.txt` what `make spark` installs and
builds PySpark by, `locks/docs.txt` what `make docs` runs, `locks/kubernetes-client.txt` the official
Python client of Kubernetes, for the tests of the API in its style. Versions are those of pyproject.toml and
constraints.txt. The files hold for Python 3.11 to 3.13 on every platform that has wheels, and name no
index: any may serve what has these hashes. Needs uv.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "locks"
COMPILE = ("mypy", "numpy", "annotated-types", "types-grpcio", "types-protobuf")
"""Beside the build's own requirements, by the versions of dev.txt: what mypyc reads of packages of others."""
PYTHON = "3.11"
"""The oldest one that is supported; uv adds markers for the newer ones."""
WORKLOADS = {
    "workloads.txt": ("jax==0.10.2", "numpy==2.4.6", "scipy==1.17.1"),
    "tensorflow.txt": ("tensorflow-cpu==2.21.0", "numpy==2.4.6"),
    "ray.txt": ("ray==2.60.0",),
}
"""What the examples of training run, each file in an environment of its own."""
HOSTS = {
    "dask": ("dask[dataframe,distributed]==2026.8.0", "numpy==2.4.6"),
    "airflow": ("apache-airflow==3.3.2",),
}
"""Projects of others that a client is a part of, by the folder of the client: an environment for each."""

DOCS = ("zensical==0.0.73",)
"""Makes the site of the documentation, by those who made Material for MkDocs, whose time is over."""

KUBERNETES_CLIENT = ("kubernetes==37.0.2",)

SPARK = {
    "spark-build.txt": ("setuptools==80.9.0", "wheel==0.45.1"),
    "spark-3.5.txt": ("pyspark==3.5.9",),
    "spark-4.1.txt": ("pyspark==4.1.3",),
}
"""Each version of Spark in an environment of its own, with the versions of clients/spark."""
OTHERS = {**WORKLOADS, **SPARK, "docs.txt": DOCS, "kubernetes-client.txt": KUBERNETES_CLIENT}
"""All whose versions are not those of pyproject.toml."""


def lock(
    name: str, *sources: str, extras: Sequence[str] = (), within: str | None = "constraints.txt"
) -> None:
    """Write a file of locked requirements."""
    options = ["--universal", "--python-version", PYTHON, "--generate-hashes", "--no-annotate", "--no-header"]
    options += ["--no-emit-index-url", "--quiet", *(["--constraint", within] if within else [])]
    options += [option for extra in extras for option in ("--extra", extra)]
    command = ["uv", "pip", "compile", *sources, *options, "--output-file", f"locks/{name}"]
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> None:
    """Write all files."""
    if shutil.which("uv") is None:
        sys.exit("lock: uv is needed to write the hashes of all platforms: pip install uv")
    LOCKS.mkdir(exist_ok=True)
    with (ROOT / "pyproject.toml").open("rb") as file:
        requires = tomllib.load(file)["build-system"]["requires"]
    with tempfile.NamedTemporaryFile("w", suffix=".in") as build:
        build.write("\n".join(requires))
        build.flush()
        lock("dev.txt", "pyproject.toml", build.name, extras=("tracing", "dev"))
        lock("build.txt", build.name, within="locks/dev.txt")
        build.write("\n" + "\n".join(COMPILE))
        build.flush()
        lock("compile.txt", build.name, within="locks/dev.txt")
        lock("image.txt", "pyproject.toml", extras=("tracing", "mcp"))
    for name, wanted in OTHERS.items():
        with tempfile.NamedTemporaryFile("w", suffix=".in") as workloads:
            workloads.write("\n".join(wanted))
            workloads.flush()
            lock(name, workloads.name, within=None)
    for client in HOSTS:
        lock_host(client)


def lock_host(client: str) -> None:
    """Write what a project of others needs, beside what the Python client needs."""
    with (ROOT / "clients" / "python" / "pyproject.toml").open("rb") as file:
        own = tomllib.load(file)["project"]
    extras = own["optional-dependencies"]
    with tempfile.NamedTemporaryFile("w", suffix=".in") as wanted:
        wanted.write("\n".join((*HOSTS[client], *own["dependencies"], *extras["zookeeper"], *extras["yaml"])))
        wanted.flush()
        lock(f"{client}.txt", wanted.name)


if __name__ == "__main__":
    main()
