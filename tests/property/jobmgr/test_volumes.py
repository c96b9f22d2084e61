"""Stateful services under random events: data stays where it is, and only on request it goes."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from peloton.errors import PelotonError
from peloton.model.ids import Run
from peloton.model.states import ON_HOST_TASK_STATES, TaskState
from peloton.model.volume import VolumeState
from peloton.model.workflow import WorkflowType
from tests.unit.jobmgr_core.services import Service
from tests.unit.jobmgr_core.specs import JOB
from tests.unit.jobmgr_core.test_volumes import stateful

INSTANCES = 3
instances = st.integers(0, INSTANCES - 1)
ENDS = (TaskState.FAILED, TaskState.LOST, TaskState.KILLED, TaskState.SUCCEEDED)


class StatefulService(RuleBasedStateMachine):
    """A service of some instances, each with a volume."""

    def __init__(self) -> None:
        super().__init__()
        self.it = Service(stateful(INSTANCES))
        self.deleted: set[str] = set()
        """Volumes whose deletion was taken."""

    @rule(host=st.sampled_from(["host", "other"]))
    def everything_goes_on(self, host: str) -> None:
        self.it.host = host
        self.it.step()

    @rule()
    def the_leader_falls(self) -> None:
        self.it.fall()

    @rule(seconds=st.sampled_from([1.0, 40.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.it.wait(seconds)

    @rule(instance=instances, end=st.sampled_from(ENDS))
    def a_run_ends(self, instance: int, end: TaskState) -> None:
        if sum(key[0] == instance for key in self.it.alive) == 1:
            self.it.end(instance, end)

    @rule()
    def launches_are_refused(self) -> None:
        launches = [each for each in self.it.todo if isinstance(each, ins.Launch)]
        self.it.todo = [each for each in self.it.todo if each not in launches]
        for launch in launches:
            self.it.cycle(ev.LaunchRefused(launch.runs, "invalid offers", faulty=False))

    @rule(instance=instances)
    def an_instance_is_restarted(self, instance: int) -> None:
        self.it.ask(ev.RestartRequested(JOB, [instance]))

    @rule(instance=instances)
    def an_instance_is_stopped(self, instance: int) -> None:
        self.it.ask(ev.StopRequested(JOB, [instance]))

    @rule(instance=instances)
    def an_instance_is_started(self, instance: int) -> None:
        self.it.ask(ev.StartRequested(JOB, [instance]))

    @rule(instance=instances)
    def an_instance_is_evicted(self, instance: int) -> None:
        task = self.it.rows.get(instance)
        if task is not None:
            self.it.cycle(ev.Preempted([(Run(JOB, instance, task.run), "maintenance")]))

    @rule(count=st.integers(1, INSTANCES), in_place=st.booleans())
    def the_service_is_updated(self, count: int, in_place: bool) -> None:
        self.it.update(stateful(count, size=100 + len(self.it.specs)), in_place=in_place)

    @rule()
    def the_service_is_restarted(self) -> None:
        self.it.begin(WorkflowType.RESTART, batch_size=1)

    @rule(data=st.data())
    def a_volume_is_deleted(self, data: st.DataObject) -> None:
        live = [each for each in self.it.volumes.values() if each.goal is not VolumeState.DELETED]
        if live:
            volume = data.draw(st.sampled_from(sorted(live, key=lambda each: each.id)))
            if not isinstance(self.it.ask(ev.VolumeDeletionRequested(JOB, volume)), PelotonError):
                self.deleted.add(volume.id)

    @invariant()
    def runs_are_where_their_volumes_are(self) -> None:
        for instance, task in self.it.rows.items():
            if task.volume_id:
                volume = self.it.volumes[task.volume_id]
                assert (volume.instance, volume.goal) == (instance, VolumeState.CREATED)
                assert task.desired_host == volume.hostname
            if task.state in ON_HOST_TASK_STATES:
                assert task.volume_id
                assert task.host == self.it.volumes[task.volume_id].hostname

    @invariant()
    def data_is_deleted_on_request_only(self) -> None:
        for volume in self.it.volumes.values():
            if volume.state is VolumeState.CREATED and volume.goal is VolumeState.DELETED:
                assert volume.id in self.deleted

    @invariant()
    def an_instance_has_one_volume(self) -> None:
        live = [each.instance for each in self.it.volumes.values() if each.goal is not VolumeState.DELETED]
        assert len(live) == len(set(live))

    @invariant()
    def no_instance_runs_twice(self) -> None:
        assert not self.it.twice

    def teardown(self) -> None:
        """Whatever happened, the service comes to rest."""
        self.it.settle()


TestStatefulService = StatefulService.TestCase
TestStatefulService.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
