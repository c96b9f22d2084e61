"""Pages of large clusters, of which a browser makes only what is near its window, over a stand-in cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import uvicorn
from playwright.sync_api import Browser, expect

from minicluster.mesos.common.server_process import listen
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.calls import web
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2
from tests.unit.web.fake import FakeCluster, application
from tests.unit.web.test_host_pages import host, hosts_cluster, summary
from tests.unit.web.test_pools import POOLS, pool

from .watched import LOOKS, Watched, tab

HOSTS = 1500
POOL_COUNT = 300


class Large:
    """The cluster, and where its pages are."""

    def __init__(self, cluster: FakeCluster, url: str) -> None:
        self.cluster = cluster
        self.url = url

    def fill_hosts(self, busy: int = 0) -> None:
        """Let the first `busy` hosts be full and the others a quarter full."""
        names = [f"host{number:04}" for number in range(HOSTS)]
        self.cluster.answers[web.QUERY_HOSTS] = host_svc_pb2.QueryHostsResponse(
            host_infos=[host(name) for name in names]
        )
        self.cluster.answers[web.GET_HOST_CACHE] = hostmgr_svc_pb2.GetHostCacheResponse(
            summaries=[summary(name, 4 if number < busy else 1) for number, name in enumerate(names)]
        )

    def fill_pools(self, entitlement: float, count: int = POOL_COUNT) -> None:
        """Let the cluster have pools."""
        pools = [pool(f"/p{number:03}", limit=10, entitlement=entitlement) for number in range(count)]
        self.cluster.answers[web.LIST_POOLS] = monitoring_pb2.ListPoolsResponse(pools=[POOLS[0], *pools])


@pytest.fixture
def large() -> Iterator[Large]:
    cluster = hosts_cluster()
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(application(cluster), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    made = Large(cluster, f"http://127.0.0.1:{listener.getsockname()[1]}")
    made.fill_hosts()
    made.fill_pools(5)
    yield made
    server.should_exit = True
    thread.join()


@pytest.fixture
def wide(browser: Browser, large: Large) -> Iterator[Watched]:
    with tab(browser, large.url) as opened:
        yield opened
        opened.check()


def test_a_map_of_many_hosts_is_drawn_and_tells_values(wide: Watched, large: Large) -> None:
    wide.open("/hosts?group=none")
    cells, value = wide.page.locator(".cells a"), wide.page.locator("#heat-value")
    expect(cells).to_have_count(1)
    expect(wide.page.locator(".drawn path.l2")).to_have_count(1)
    columns = int(wide.page.locator(".drawn svg").get_attribute("width") or 0) // 12
    cells.first.focus()
    expect(value).to_have_text("host0000: 25%, 1 of 4 cores")
    wide.page.keyboard.press("ArrowDown")
    expect(value).to_have_text(f"host{columns:04}: 25%, 1 of 4 cores")
    wide.page.keyboard.press("End")
    expect(value).to_have_text(f"host{HOSTS - 1:04}: 25%, 1 of 4 cores")
    wide.page.keyboard.press("Home")
    large.fill_hosts(busy=10)
    expect(wide.page.locator(".drawn path.l9")).to_have_count(1)
    expect(value).to_have_text("host0000: 100 %")
    wide.check_access()
    box = wide.page.locator(".drawn").bounding_box()
    assert box is not None
    wide.page.mouse.click(box["x"] + 12 * 3 + 4, box["y"] + 12 + 4)
    expect(wide.page.get_by_role("heading", level=1)).to_have_text(f"host{columns + 3:04}")


def test_rows_of_pools_are_made_when_they_come_near(wide: Watched, large: Large) -> None:
    wide.open("/pools")
    rows, folded = wide.page.locator('tr[id^="pool-"]'), wide.page.locator("tbody.folded")
    expect(folded.last).to_contain_text("Show 1 pool from /p299 on")
    first, waiting = rows.count(), folded.count()
    assert first < POOL_COUNT / 2 and waiting > 5
    wide.check_access()
    large.fill_pools(7)
    expect(rows.nth(1)).to_contain_text("0 of 7 cores")
    wide.page.locator("#pool-p100").wait_for(state="detached")
    wide.page.locator(".folded button").last.focus()
    expect(wide.page.locator("#pool-p299")).to_contain_text("0 of 7 cores")
    assert wide.page.evaluate("document.activeElement.textContent") == "/p299"[1:]
    wide.page.keyboard.press("Control+f")
    expect(folded).to_have_count(0)
    expect(rows).to_have_count(POOL_COUNT + 1)


def test_rows_that_wait_go_with_their_pools(wide: Watched, large: Large) -> None:
    wide.open("/pools")
    expect(wide.page.locator("tbody.folded")).to_have_count(11)
    large.fill_pools(5, count=POOL_COUNT - 30)
    expect(wide.page.locator("tbody.folded")).to_have_count(9)
    wide.page.keyboard.press("Control+f")
    expect(wide.page.locator('tr[id^="pool-"]')).to_have_count(POOL_COUNT - 29)


def test_without_scripts_all_is_there(browser: Browser, large: Large) -> None:
    context = browser.new_context(
        java_script_enabled=False, viewport={"width": LOOKS[0].width, "height": 800}
    )
    try:
        page = context.new_page()
        page.goto(f"{large.url}/hosts?group=none")
        expect(page.locator(".cells a")).to_have_count(HOSTS)
        expect(page.locator(".cells a").last).to_be_visible()
        page.goto(f"{large.url}/pools")
        expect(page.locator('tr[id^="pool-"]')).to_have_count(POOL_COUNT + 1)
        expect(page.locator("#pool-p299")).to_be_visible()
        expect(page.locator(".folded button").first).to_be_hidden()
    finally:
        context.close()
