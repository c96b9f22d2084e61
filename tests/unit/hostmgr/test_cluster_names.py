"""The names of clusters in the settings."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hostmgr.config import KubernetesSettings, MesosSettings


@pytest.mark.parametrize("kind", [MesosSettings, KubernetesSettings])
def test_a_cluster_has_a_name_that_hosts_may_begin_with(
    kind: type[MesosSettings] | type[KubernetesSettings],
) -> None:
    assert kind().cluster == ""
    assert kind(cluster="east-1").cluster == "east-1"
    with pytest.raises(ValidationError, match="'east/1' is not up to 63 letters, digits"):
        kind(cluster="east/1")
