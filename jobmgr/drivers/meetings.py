"""What runs that are launched are told of other tasks of their job."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.task.rendezvous import Meeting, meeting_of, meeting_variables, member_of, peer_variables
from peloton.model.ids import JobId

MOST_MEETINGS = 100
NOTHING_TOLD: Mapping[str, str] = {}


class Meetings:
    """Finds out what runs are told. The members of a gang are gathered once for each change of its job."""

    def __init__(self, address: str = "") -> None:
        """Tell `address` for all hosts; where it is empty, their names."""
        self._address = address
        self._held: OrderedDict[JobId, tuple[tuple[int, int, int], Meeting]] = OrderedDict()

    def told(self, job: CachedJob, instance: int) -> Mapping[str, str]:
        """Return the variables that tell a run of its gang and of its peer."""
        spec = job.spec_of(instance)
        peer, meets = spec.task(instance).workload.peer, instance < spec.rendezvous_size
        if peer is None and not meets:
            return NOTHING_TOLD
        told: dict[str, str] = {}
        if meets:
            meeting = self._meeting(job, spec.version, instance)
            told = meeting_variables(meeting, meeting.rank(instance))
        return told if peer is None else told | peer_variables(member_of(job, peer, self._address))

    def _meeting(self, job: CachedJob, version: int, instance: int) -> Meeting:
        task = job.task(instance)
        run = 0 if task is None else task.run
        key, held = (job.runtime.revision, version, run), self._held.get(job.job_id)
        if held is not None and held[0] == key:
            return held[1]
        meeting = meeting_of(job, version, self._address, run)
        self._held[job.job_id] = key, meeting
        self._held.move_to_end(job.job_id)
        if len(self._held) > MOST_MEETINGS:
            self._held.popitem(last=False)
        return meeting
