"""Updates of a service, followed on its page while they go: nothing is loaded again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, StorageState, expect

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from tests.cluster.conftest import wait_for
from tests.cluster.service_job import ServiceJob

from .watched import Watched, tab
from .world import World

INSTANCES = 4
LAG = 2.0
"""Seconds after which a page shows at the latest what the cluster knows."""
SECONDS = 90


class Gated:
    """A service whose new runs are well only once the test lets them."""

    def __init__(self, world: World, folder: Path) -> None:
        self._folder = folder
        self.let(*range(INSTANCES))
        self.service = ServiceJob(world.harness, INSTANCES, self._adjust)
        self.service.await_states(*[pod_pb2.POD_STATE_RUNNING] * INSTANCES)
        self.url = f"/jobs/{self.service.id.value}"

    def let(self, *instances: int) -> None:
        """Let the runs of instances be well that are up, or come up."""
        for instance in instances:
            (self._folder / str(instance)).touch()

    def hold(self) -> None:
        """Let no further run be well. Those that are stay so."""
        for file in self._folder.iterdir():
            file.unlink()

    def status(self) -> stateless_pb2.WorkflowStatus:
        return self.service.get().workflow_info.status

    def in_flight(self) -> set[int]:
        return set(self.status().instances_current)

    def state(self) -> str:
        return stateless_pb2.WorkflowState.Name(self.status().state).removeprefix("WORKFLOW_STATE_")

    def _adjust(self, spec: stateless_pb2.JobSpec) -> None:
        spec.name = "till"
        container = spec.default_spec.containers[0]
        container.entrypoint.value = "echo version one; sleep 600"
        check = container.liveness_check
        check.enabled, check.type = True, pod_pb2.HealthCheckSpec.HEALTH_CHECK_TYPE_COMMAND
        check.interval_secs, check.max_consecutive_failures = 1, 1000
        gate = f'"{self._folder}/$PELOTON_INSTANCE_ID"'
        check.command_check.command = f"test -e well || {{ test -e {gate} && touch well; }}"


@pytest.fixture(scope="module")
def gated(world: World) -> Gated:
    folder = world.folder / "gates"
    folder.mkdir()
    return Gated(world, folder)


@pytest.fixture
def watcher(browser: Browser, world: World, admin: StorageState, gated: Gated) -> Iterator[Watched]:
    """A second tab, in which somebody watches the service's page and never loads it again."""
    with tab(browser, world.url, state=admin) as opened:
        opened.open(gated.url)
        opened.page.evaluate("window.first = true")
        yield opened
        assert opened.page.evaluate("window.first"), "the page was loaded again"
        opened.check()


def keeps_up(place: Locator, text: str, holds: Callable[[], bool]) -> None:
    """Wait until the cluster knows something, then until the page says so: soon after."""
    wait_for(holds, SECONDS)
    known = time.monotonic()
    expect(place).to_contain_text(text)
    lag = time.monotonic() - known
    assert lag <= LAG, f"the page said {text!r} after {lag:.1f} s"


def change(it: Watched, gated: Gated, before: str, after: str, **fields: str | bool) -> None:
    """Fill in the form of an update, and look at what it will do."""
    it.open(gated.url)
    it.page.get_by_role("link", name="Update…", exact=True).click()
    spec = it.page.get_by_label("Spec, version")
    assert before in spec.input_value()
    spec.fill(spec.input_value().replace(before, after))
    for label, value in fields.items():
        field = it.page.get_by_label(label.replace("_", " "))
        field.check() if value is True else field.fill(str(value))
    it.page.get_by_role("button", name="Show what it will do").click()
    expect(it.page.locator("table.diff tr.added")).to_contain_text(after)
    expect(it.page.locator("table.diff tr.removed")).to_contain_text(before)


def act(it: Watched, gated: Gated, label: str, told: str) -> None:
    """Take an action, after reading what it will do."""
    it.open(gated.url)
    it.page.get_by_role("link", name=label, exact=True).click()
    expect(it.page.get_by_role("heading", name="What it will do")).to_be_visible()
    expect(it.page.locator("main")).to_contain_text(told)
    it.check_access()
    it.page.get_by_role("button", name=f"{label} till", exact=True).click()
    it.wait_live()


def test_an_update_is_watched_paused_and_resumed(it: Watched, watcher: Watched, gated: Gated) -> None:
    workflow = watcher.page.locator('[data-live="workflow"]')
    batches = workflow.get_by_role("list", name="Batches").get_by_role("listitem")
    gated.hold()
    change(it, gated, "version one", "version two", Instances_at_a_time="2")
    updated = it.page.locator("dl div", has_text="Updated: a new run each")
    expect(updated).to_contain_text("0-3")
    expect(it.page.locator("form.panel")).to_contain_text("2 instances at a time")
    it.page.get_by_role("button", name="Update till").click()
    keeps_up(workflow, "in flight 2 0-1", lambda: gated.in_flight() == {0, 1})
    expect(workflow.get_by_role("heading")).to_have_text("Under way")
    expect(batches).to_have_count(2)
    expect(batches.first).to_contain_text("under way")
    expect(batches.last).to_contain_text("to come")

    act(it, gated, "Pause", "The update stops after what is in flight: 2 instances")
    keeps_up(workflow, "paused", lambda: gated.state() == "PAUSED")
    gated.let(0, 1)
    keeps_up(workflow, "2 of 4 instances done", lambda: gated.status().num_instances_completed == 2)
    expect(batches.first).to_contain_text("done")
    expect(workflow).not_to_contain_text("in flight")
    assert gated.state() == "PAUSED"

    act(it, gated, "Resume", "The update goes on with 2 instances, 2 at a time")
    keeps_up(workflow, "in flight 2 2-3", lambda: gated.in_flight() == {2, 3})
    expect(batches.last).to_contain_text("under way")
    gated.let(2, 3)
    keeps_up(workflow, "succeeded", lambda: gated.state() == "SUCCEEDED")
    expect(workflow.get_by_role("heading")).to_have_text("Last update or restart")
    expect(batches.last).to_contain_text("done")
    expect(watcher.page.locator('[data-live="events"]')).to_contain_text("update")
    watcher.check_access()


def test_an_update_is_aborted_and_rolled_back(it: Watched, watcher: Watched, gated: Gated) -> None:
    workflow = watcher.page.locator('[data-live="workflow"]')
    gated.hold()
    change(it, gated, "version two", "version three", Instances_at_a_time="1")
    it.page.get_by_role("button", name="Update till").click()
    gated.let(0)
    keeps_up(workflow, "in flight 1 1", lambda: gated.in_flight() == {1})
    act(it, gated, "Abort", "The update ends: 1 instance done stays as it is")
    keeps_up(workflow, "aborted", lambda: gated.state() == "ABORTED")
    expect(watcher.page.locator('[data-live="actions"]')).not_to_contain_text("Abort")

    gated.let(*range(INSTANCES))
    it.open(gated.url)
    it.page.get_by_role("link", name="Roll back…", exact=True).click()
    expect(it.page.get_by_role("heading", level=1)).to_have_text("Roll back till to version 2")
    expect(it.page.locator("table.diff tr.removed")).to_contain_text("version three")
    expect(it.page.locator("table.diff tr.added")).to_contain_text("version two")
    it.check_access()
    it.page.get_by_role("button", name="Roll back till", exact=True).click()
    it.wait_live()
    keeps_up(workflow, "succeeded", lambda: gated.state() == "SUCCEEDED")
    # An instance that kept version 2 throughout, and one that went there and back, run it now.
    command = watcher.page.locator('[data-live="what"] .command')
    expect(command).to_contain_text("version two")


def test_an_update_that_fails_is_seen_to_roll_back(it: Watched, watcher: Watched, gated: Gated) -> None:
    workflow = watcher.page.locator('[data-live="workflow"]')
    gated.let(*range(INSTANCES))
    change(
        it,
        gated,
        "version two",
        "version four; exit 1",
        Instances_at_a_time="1",
        Failed_instances="1",
        Failed_runs_of_an_instance="1",
        roll_back_where_it_fails=True,
    )
    expect(it.page.locator("form.panel")).to_contain_text("rolls back where it fails")
    it.page.get_by_role("button", name="Update till").click()
    keeps_up(workflow, "rolled back", lambda: gated.state() == "ROLLED_BACK")
    command = watcher.page.locator('[data-live="what"] .command')
    expect(command).to_contain_text("version two")


def test_any_two_versions_are_compared(it: Watched, gated: Gated) -> None:
    it.open(f"{gated.url}/versions")
    page, diff = it.page, it.page.locator("table.diff")
    page.get_by_label("From").select_option("1")
    page.get_by_label("To").select_option("3")
    page.get_by_role("button", name="Compare").click()
    expect(diff.locator("tr.removed")).to_contain_text("version one")
    expect(diff.locator("tr.added")).to_contain_text("version three")
    page.get_by_label("From").select_option("2")
    page.get_by_label("To").select_option("2")
    page.get_by_role("button", name="Compare").click()
    expect(diff).to_have_count(0)
    expect(page.locator("main")).to_contain_text("version two")
    it.check_access()
