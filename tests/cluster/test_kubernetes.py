"""Jobs through all four daemons on Kubernetes, with the small API server for tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import Harness, harness_of
from tests.cluster.kubernetes_jobs import *  # noqa: F403 - its tests are those of this module
from tests.contract.backend.systems import write_kubeconfig
from tests.servers.api_server import ApiServer

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    kubeconfig = tmp_path_factory.mktemp("api") / "kubeconfig"
    with ApiServer("peloton").running() as api:
        write_kubeconfig(kubeconfig, api.url)
        with harness_of(tmp_path_factory, kubernetes=str(kubeconfig), kubelets=True) as held:
            yield held
