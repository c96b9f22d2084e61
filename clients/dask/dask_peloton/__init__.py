"""Dask clusters whose workers are instances of a Peloton job.

from dask.distributed import Client
from dask_peloton import PelotonCluster

with PelotonCluster(n_workers=4, pool="/team/batch", cores=2, memory="4 GiB") as cluster:
    with Client(cluster) as client:
        ...
"""

from __future__ import annotations

from dask_peloton import config as config  # its defaults are there as soon as the package is imported
from dask_peloton.cluster import PelotonCluster
from dask_peloton.errors import ClusterLost

__all__ = ["ClusterLost", "PelotonCluster"]
