"""`peloton volume`: the persistent volumes of stateful jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from peloton.cli import references
from peloton.cli.groups import Group
from peloton.cli.listing import Listing, listing
from peloton.cli.live_names import live_jobs
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS
from peloton.present.times import short_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from peloton.api.v0.volume.volume_pb2 import PersistentVolumeInfo

HEADS = ("ID", "Instance", "Host", "State", "Goal State", "Size (MB)", "Path", "Created", "Updated")


@click.group(cls=Group)
def volume() -> None:
    """Look at and delete the persistent volumes of stateful jobs."""


@volume.command("list")
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def list_(session: Session, job_id: str) -> None:
    """List the volumes of a job, deleted ones included. Those of a deleted job are listed too."""
    from peloton.api.v0.volume.svc import volume_svc_pb2 as pb

    request = pb.ListVolumesRequest()
    request.jobId.value = job_id
    response = session.call(RPCS.volume_svc.ListVolumes, request)
    session.show(response, lambda: _table(response.volumes.values()))


@volume.command()
@click.argument("volume_id", metavar="VOLUME")
@pass_session
def delete(session: Session, volume_id: str) -> None:
    """Delete a volume with its data.

    This is refused while a run uses the volume: stop the instance first. Where the volume's host is gone, its
    instance may run on another host afterwards, with a new volume; the data is destroyed when the host comes
    back.
    """
    from peloton.api.v0.volume.svc import volume_svc_pb2 as pb

    request = pb.DeleteVolumeRequest()
    request.id.value = volume_id
    response = session.call(RPCS.volume_svc.DeleteVolume, request)
    session.show(response, lambda: f"Volume {volume_id} is deleted")


def _table(volumes: Iterable[PersistentVolumeInfo]) -> Listing:
    from peloton.api.v0.volume import volume_pb2

    ordered = sorted(volumes, key=lambda each: (each.instanceId, each.createTime))
    rows = [
        (
            each.id.value,
            each.instanceId,
            each.hostname,
            volume_pb2.VolumeState.Name(each.state),
            volume_pb2.VolumeState.Name(each.goalState),
            each.sizeMB,
            each.containerPath,
            short_time(each.createTime),
            short_time(each.updateTime),
        )
        for each in ordered
    ]
    return listing(HEADS, rows)
