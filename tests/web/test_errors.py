"""What is wrong is said clearly: unknown things, refusals, forms that are too old, a daemon that is away."""

from __future__ import annotations

import uuid

import pytest
from playwright.sync_api import Browser, StorageState, expect

from minicluster.credentials import ADMIN
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from tests.cluster.conftest import wait_for
from tests.cluster.service_job import ServiceJob

from .watched import LOOKS, Look, Watched, log_in, tab
from .world import HOSTILE, World

NOBODY = "8d5b1d6c-0000-4000-8000-000000000000"
RECOVERY = 60_000
"""Milliseconds for a daemon to come up, to lead, and to be found."""


def unknown(world: World) -> dict[str, tuple[int, str]]:
    """Return addresses of what there is not, each with the status and what the page is to say."""
    job = f"/jobs/{world.batch}"
    return {
        f"/jobs/{NOBODY}": (404, NOBODY),
        "/jobs/nonsense": (404, "nonsense"),
        f"/jobs/{NOBODY}/versions": (404, NOBODY),
        f"/jobs/{NOBODY}/do/stop": (404, NOBODY),
        f"/jobs/{NOBODY}/instances/0": (404, NOBODY),
        f"/jobs/{NOBODY}/instances/0/logs": (404, NOBODY),
        f"/jobs/{NOBODY}/instances/0/files": (404, NOBODY),
        f"{job}/instances/999": (404, "the job has 3 instances, 0 to 2"),
        f"{job}/instances/999/logs": (404, "the job has 3 instances, 0 to 2"),
        f"{job}/instances/99999999999": (404, "99999999999"),
        f"{job}/instances/one": (404, "/instances/one"),
        f"{job}/do/explode": (404, "explode"),
        f"{job}/versions?from=77": (400, "77"),
        f"{job}?state=NONSENSE": (400, "NONSENSE"),
        f"{job}?page=two": (400, "two"),
        f"{job}?sort=colour": (400, "colour"),
        "/jobs?created=ever": (400, "ever"),
        "/pools/nobody": (404, "nobody"),
        "/hosts/nobody": (404, "nobody"),
        "/hosts?kind=wind": (400, "wind"),
        "/hostpools/delete?name=nobody": (404, "nobody"),
        "/hostpools/change?host=nobody&destination=default": (404, "nobody"),
        "/nowhere": (404, "/nowhere"),
        "/hosts/<script>document.body.dataset.hacked=1<%2Fscript>": (404, "<script>"),
    }


@pytest.mark.parametrize("look", (LOOKS[0], LOOKS[3]), ids=str)
def test_what_there_is_not_is_named(
    browser: Browser, world: World, admin: StorageState, look: Look, subtests: pytest.Subtests
) -> None:
    with tab(browser, world.url, look, admin) as opened:
        for path, (status, named) in unknown(world).items():
            with subtests.test(path):
                opened.open_failing(path, status)
                expect(opened.page.locator("main .notice.bad:not(#trouble)")).to_contain_text(named)
                assert "Error" not in opened.text() and "Traceback" not in opened.text()
                assert opened.page.evaluate("document.body.dataset.hacked ?? null") is None
                expect(opened.page.get_by_role("link", name="Jobs", exact=True)).to_be_visible()
                opened.check_access()
                opened.check()


def test_a_page_says_that_a_leader_is_away_and_recovers_by_itself(
    it: Watched, browser: Browser, world: World, admin: StorageState
) -> None:
    name = f"lasting {uuid.uuid4()}"
    config = world.harness.config("sleep 3600", 2)
    config.name = name
    job = world.harness.create(config)
    world.harness.running(job, 1)
    it.open(f"/jobs/{job}")
    state, trouble = it.page.locator('[data-live="state"]'), it.page.locator("#trouble")
    expect(state).to_contain_text("running 2")
    it.page.evaluate("window.first = true")
    with tab(browser, world.url, state=admin) as overview:
        overview.open("/")
        wrong = overview.page.locator('[data-live="problems"]')
        expect(wrong).not_to_contain_text("jobmgr")
        world.harness.cluster.kill(["jobmgr0"])
        try:
            expect(trouble).to_contain_text("Not current", timeout=20_000)
            expect(trouble).to_contain_text("jobmgr")
            expect(it.page.locator("#liveness")).to_have_text("Not current")
            expect(state).to_contain_text("running 2")  # what was known stays to be read
            it.check_access()
            expect(wrong).to_contain_text("jobmgr", timeout=RECOVERY)
            overview.check_access()
        finally:
            world.harness.cluster.start(["jobmgr0"])
        expect(it.page.locator("#liveness")).to_have_text("Live", timeout=RECOVERY)
        expect(trouble).to_be_hidden()
        expect(wrong).not_to_contain_text("jobmgr", timeout=RECOVERY)
        overview.check()
    # It is current again, not only quiet: what happens now is shown.
    request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    world.harness.client.task_svc.Stop(request, timeout=60)
    expect(state).to_contain_text("killed 2")
    assert it.page.evaluate("window.first")


def test_a_page_that_cannot_be_read_says_who_does_not_answer(it: Watched, world: World) -> None:
    world.harness.cluster.stop(["jobmgr0"])
    try:
        it.open_failing(f"/jobs/{world.batch}", 503)
        expect(it.page.get_by_role("heading", level=1)).to_have_text("A part of the cluster does not answer")
        expect(it.page.locator("main .notice.bad:not(#trouble)")).to_contain_text("jobmgr")
        it.check_access()
        # What needs no job manager is there.
        it.open("/hosts")
        it.open("/pools")
    finally:
        world.harness.cluster.start(["jobmgr0"])
    wait_for(lambda: bool(world.harness.tasks(world.batch)), 60)
    it.open(f"/jobs/{world.batch}")


def test_a_form_of_another_session_is_not_obeyed(it: Watched, world: World) -> None:
    page, path = it.page, f"/jobs/{world.service.id.value}/do/stop"
    it.open(path)
    page.context.clear_cookies(name="peloton_csrf")
    page.get_by_role("button", name="Stop shop").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("This was refused")
    expect(page.locator("main .notice.bad:not(#trouble)")).to_contain_text("reload the page, send it again")
    it.forgive(403)
    it.check_access()
    # What it says helps.
    page.go_back()
    page.reload()
    expect(page.get_by_role("button", name="Stop shop")).to_be_visible()
    token = page.locator('main input[name="csrf"]').get_attribute("value")
    held = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    assert token == held["peloton_csrf"]


def test_a_login_that_has_ended_leads_to_the_login_and_back(
    browser: Browser, world: World, admin: StorageState
) -> None:
    path = f"/jobs/{world.service.id.value}"
    with tab(browser, world.url, state=admin) as opened:
        page, user = opened.page, world.users[ADMIN]
        opened.open(f"{path}/do/stop")
        page.context.clear_cookies(name="peloton_session")
        page.get_by_role("button", name="Stop shop").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("You are not logged in")
        opened.forgive(401)
        opened.check_access()
        page.get_by_role("main").get_by_role("link", name="Log in").click()
        log_in(page, user.username, user.password)
        expect(page.get_by_role("button", name="Stop shop")).to_be_visible()
        opened.check()


def test_a_job_that_others_changed_is_looked_at_again(it: Watched, world: World) -> None:
    service = ServiceJob(world.harness, 1, lambda spec: setattr(spec, "name", "contended"))
    it.open(f"/jobs/{service.id.value}/do/restart")
    it.page.evaluate("dispatchEvent(new Event('pagehide'))")  # it stays as it is now
    request = jobs_pb.StopJobRequest(job_id=service.id, version=service.version)
    service.jobs.StopJob(request, timeout=30)
    it.page.get_by_role("button", name="Restart contended").click()
    problem = it.page.locator("main .notice.bad:not(#trouble)")
    expect(problem).to_contain_text("nothing was done")
    it.forgive(409)
    it.check_access()


def test_a_spec_that_is_refused_stays_in_the_form_with_what_is_wrong(it: Watched, world: World) -> None:
    it.open(f"/jobs/{world.service.id.value}/do/update")
    problem = it.page.locator("main .notice.bad:not(#trouble)")
    spec = it.page.get_by_label("Spec, version")
    good = spec.input_value()
    wrong = {
        good + "colour: blue\n": "colour",
        good.replace("instance_count: 3", "instance_count: many"): "many",
        good.replace("shop", "shop: [" + HOSTILE): "spec",
        good.replace("cpu_limit: 0.1", "cpu_limit: -3"): "cpu",
    }
    for text, named in wrong.items():
        assert text != good
        spec.fill(text)
        it.page.get_by_role("button", name="Show what it will do").click()
        expect(problem).to_contain_text(named)
        expect(spec).to_have_value(text)
        it.forgive(400)
        it.forgive(409)
        it.check_access()
        it.check()
    for label in ("Instances at a time", "Failed instances, at most"):
        spec.fill(good)
        it.page.get_by_label(label).fill("-1")
        it.page.get_by_role("button", name="Show what it will do").click()
        expect(problem).to_contain_text("'-1'")
        expect(spec).to_have_value(good)
        it.forgive(400)
        it.page.get_by_label(label).fill("")
