"""Programs that bring a cluster of their own up and take it down again: demos and benchmarks.

    def main() -> int:
        return ending_orderly("benchmark", run)

    def run() -> int:
        with temporary_cluster(read_cluster(None, {"ports": "free"})) as cluster:
            ...

However such a program ends, short of SIGKILL, its cluster is gone afterwards.
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
from peloton.errors import PelotonError

FAILED, INTERRUPTED = 1, 130


def ending_orderly(name: str, body: Callable[[], int]) -> int:
    """The exit code of a program. SIGTERM, SIGHUP and SIGINT end `body` by KeyboardInterrupt: 130."""
    try:
        with interruptible():
            return body()
    except (PelotonError, OSError) as error:
        return _told(name, str(error), FAILED)
    except KeyboardInterrupt:
        return _told(name, "interrupted", INTERRUPTED)


@contextmanager
def temporary_cluster(
    settings: ClusterSettings,
    tell: Progress = silent,
    keep_logs: Path | None = None,
) -> Iterator[Cluster]:
    """A cluster that is up, in a folder of its own. Both are gone afterwards, however the body ends.

    A signal that comes while it goes down waits until it is down. `keep_logs`: copy the components' logs to
    this folder. Raises what `Cluster.up` raises.
    """
    with tempfile.TemporaryDirectory(prefix="peloton-") as folder:
        cluster = Cluster(Path(folder) / "cluster")
        try:
            cluster.up(settings, tell)
            yield cluster
        finally:
            with uninterrupted():
                if keep_logs is not None:
                    _copy_logs(cluster, keep_logs)
                cluster.down()


def _copy_logs(cluster: Cluster, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for file in cluster.layout.log.glob("*.log"):
        (target / file.name).write_bytes(file.read_bytes())


def _told(name: str, what: str, code: int) -> int:
    print(f"{name}: {what}", file=sys.stderr, flush=True)
    return code
