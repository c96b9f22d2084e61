"""The work that the jobs of pools have lost since checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError
from peloton.model.resources import KINDS
from peloton.present.losses import loss_text, summed

if TYPE_CHECKING:
    from peloton.api.v0.respool.respool_pb2 import ResourcePoolInfo
    from peloton.cli.pool_amounts import Cells
    from peloton.cli.session import Session

PATIENCE_SECONDS = 3.0


def read_losses(session: Session, pools: Iterable[ResourcePoolInfo]) -> Mapping[str, float] | None:
    """Return the seconds that jobs have lost by the paths of pools, with the pools below.

    None where the job manager does not answer: other things are shown of pools then.
    """
    from peloton.private.jobmgr.usage import usage_pb2

    try:
        answer = session.call(
            RPCS.usage_svc.ListLosses, usage_pb2.ListLossesRequest(), timeout=PATIENCE_SECONDS
        )
    except PelotonError:
        return None
    own = {each.pool_id.value: each.seconds for each in answer.losses}
    return summed(own, {pool.id.value: pool.path.value for pool in pools})


def loss_cells(lost: Mapping[str, float] | None) -> Cells:
    """Return what work the jobs of pools have lost, in the row of their first kind; None: not known."""

    def cell(path: str, kind: str) -> str:
        return loss_text(None if lost is None else lost.get(path, 0.0)) if kind == KINDS[0] else ""

    return cell
