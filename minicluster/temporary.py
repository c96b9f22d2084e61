"""Run programs with a cluster of their own: demos and benchmarks.

    def main() -> int:
        return run_program("benchmark", run)

    def run() -> int:
        with temporary_cluster(read_cluster(None, {"ports": "free"})) as cluster:
            ...

Except after SIGKILL, the cluster is gone when the program has ended.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from minicluster.cluster import Cluster
from minicluster.processes import interruptible, uninterrupted
from minicluster.progress import Progress, silent
from minicluster.settings import ClusterSettings
from peloton.config.private import make_folder, write_private
from peloton.errors import PelotonError

FAILED, INTERRUPTED = 1, 130


def run_program(name: str, body: Callable[[], int]) -> int:
    """Run a program.

    Return its exit code. SIGTERM, SIGHUP and SIGINT raise KeyboardInterrupt in `body`: 130.
    """
    try:
        with interruptible():
            return body()
    except (PelotonError, OSError) as error:
        return _failed(name, str(error), FAILED)
    except KeyboardInterrupt:
        return _failed(name, "interrupted", INTERRUPTED)


@contextmanager
def temporary_cluster(
    settings: ClusterSettings,
    report: Progress = silent,
    keep_logs: Path | None = None,
) -> Iterator[Cluster]:
    """Bring a cluster up in a folder of its own; take both away when the body ends.

    A signal that arrives while it goes down is delivered afterwards. `keep_logs`: copy the components' logs
    to this folder. Raise what `Cluster.up` raises.
    """
    with tempfile.TemporaryDirectory(prefix="peloton-") as folder:
        cluster = Cluster(Path(folder) / "cluster")
        try:
            cluster.up(settings, report)
            yield cluster
        finally:
            with uninterrupted():
                if keep_logs is not None:
                    _copy_logs(cluster, keep_logs)
                cluster.down()


def _copy_logs(cluster: Cluster, target: Path) -> None:
    make_folder(target)
    for file in cluster.layout.log.glob("*.log"):
        write_private(target / file.name, file.read_text(errors="replace"))


def _failed(name: str, what: str, code: int) -> int:
    print(f"{name}: {what}", file=sys.stderr, flush=True)
    return code
