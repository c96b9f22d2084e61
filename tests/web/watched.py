"""A page in a real browser, with everything that goes wrong in it written down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, StorageState, expect

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",  # needed by root, as in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # Without these the browser looks for its maker's servers at each start.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SECONDS = 60.0
"""For what a page is to show on a busy machine."""
BAD = ("serious", "critical")
GONE = ("net::ERR_ABORTED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING")
"""Failures of requests that leaving a page causes: its event stream ends."""
_REPORTS = """
window.reports = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.reports.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
"""


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is looked at."""

    scheme: Literal["light", "dark"]
    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.scheme}-{self.width}"


LARGE, SMALL = (1280, 800), (390, 844)
LOOKS = (Look("light", *LARGE), Look("light", *SMALL), Look("dark", *LARGE), Look("dark", *SMALL))


class Watched:
    """A tab of the browser. `problems` are errors of the console, of scripts, and of requests."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.problems: list[str] = []
        page.set_default_timeout(SECONDS * 1000)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)
        page.on("dialog", self._dialog)

    def open_failing(self, path: str, status: int) -> None:
        """Open a page that is answered with an error. That it is, is no problem; anything else is."""
        answer = self.page.goto(self.base + path, wait_until="load")
        assert answer is not None and answer.status == status, f"{path}: {answer and answer.status}"
        self.forgive(status)

    def forgive(self, status: int) -> None:
        """Forget that requests were answered with a status: what the browser says of it, and what we do."""
        told = (f": {status}", f"status of {status} ")
        self.problems = [each for each in self.problems if not each.endswith(told[0]) and told[1] not in each]

    def open(self, path: str) -> None:
        """Open a page of the web UI, and wait until it is live, where it is to be."""
        answer = self.page.goto(self.base + path, wait_until="load")
        assert answer is not None and answer.ok, f"{path}: {answer and answer.status} {self.text()[:500]}"
        self.wait_live()

    def wait_live(self) -> None:
        """Wait until the page has been brought up to date once; pages without live parts are complete."""
        if self.page.locator("body[data-page]").count():
            expect(self.page.locator("#liveness")).to_have_text("Live")

    def text(self) -> str:
        """Return the text of the page."""
        return self.page.locator("body").inner_text()

    def check(self) -> None:
        """Fail where something went wrong since the last check, or something runs over the page's edge."""
        found, self.problems = self.problems, []
        found += [f"policy: {report}" for report in self.page.evaluate("window.reports")]
        if text := self.page.locator("#trouble:visible").all_inner_texts():
            found.append(f"trouble: {text[0]}")
        wide, view = self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        if wide > view:
            found.append(f"the page is {wide} px wide in a window of {view} px: {self._widest(view)}")
        assert not found, f"{self.page.url}: " + "; ".join(found)

    def check_access(self) -> None:
        """Fail where axe-core finds a serious or critical fault."""
        faults = [
            f"{each['id']}: {each['help']}: " + " | ".join(node["html"][:200] for node in each["nodes"][:3])
            for each in Axe().run(self.page).response["violations"]
            if each["impact"] in BAD
        ]
        assert not faults, f"{self.page.url}: " + "; ".join(faults)

    def _widest(self, view: int) -> Any:
        return self.page.evaluate(
            """(view) => [...document.querySelectorAll("body *")]
                 .filter((each) => each.getBoundingClientRect().right > view + 1 && !each.closest(".scroll"))
                 .slice(0, 3).map((each) => each.outerHTML.slice(0, 120))""",
            view,
        )

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text}")

    def _failed(self, request: Request) -> None:
        if request.failure not in GONE:
            self.problems.append(f"request: {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"answer: {response.url}: {response.status}")

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def tab(
    browser: Browser, base: str, look: Look = LOOKS[0], state: StorageState | None = None
) -> Iterator[Watched]:
    """Open a tab that looks so, in a browser with these cookies; close it."""
    context = browser.new_context(
        viewport={"width": look.width, "height": look.height},
        color_scheme=look.scheme,
        storage_state=state,
        ignore_https_errors=True,  # the cluster's certificates are its own
    )
    try:
        context.add_init_script(_REPORTS)
        yield Watched(context.new_page(), base)
    finally:
        context.close()


def log_in(page: Page, name: str, password: str) -> None:
    """Fill in and send the login form that is shown."""
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def session(browser: Browser, base: str, name: str, password: str) -> StorageState:
    """Log in, and return the cookies of a browser in which this user is logged in."""
    with tab(browser, base) as opened:
        opened.open("/login")
        log_in(opened.page, name, password)
        expect(opened.page.get_by_role("button", name=f"Log out {name}")).to_be_visible()
        return opened.page.context.storage_state()
