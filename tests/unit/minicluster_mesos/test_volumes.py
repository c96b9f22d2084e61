"""Volumes on an agent's disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesos.v1 import mesos_pb2
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.volumes import DamagedCheckpoint, Volumes, volume_dir


def volume() -> mesos_pb2.Resource:
    found = mesos_pb2.Resource(name="disk", role="peloton", type=mesos_pb2.Value.SCALAR)
    found.scalar.value = 10
    found.disk.persistence.id = "one"
    return found


@pytest.mark.parametrize("text", ["", '["', "{}", "[7]", '["AAAA"]'])
def test_damaged_checkpoint_removes_no_data(tmp_path: Path, text: str) -> None:
    layout = Layout(tmp_path)
    layout.make()
    Volumes(layout).apply([volume()])
    data = volume_dir(layout, volume()) / "data"
    data.write_text("kept")
    layout.resources_file.write_text(text)
    with pytest.raises(DamagedCheckpoint, match=r"resources\.json does not name the volumes"):
        Volumes(layout).recover()
    assert data.read_text() == "kept"


def test_interrupted_change_is_finished(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make()
    volumes = Volumes(layout)
    volumes.recover()
    assert volumes.resources == ()
    volumes.apply([volume()])
    left = layout.volumes / "roles" / "peloton" / "two"
    left.mkdir()
    volume_dir(layout, volume()).rmdir()
    again = Volumes(layout)
    again.recover()
    assert list(again.resources) == [volume()]
    assert volume_dir(layout, volume()).is_dir()
    assert not left.exists(), "it is not in the checkpoint"
