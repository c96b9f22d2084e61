"""The commands of README.md, user-guide.md and operations.md do what they say; specs of pages are planned.

Each page is a walk: its blocks run in their order in one shell, in a folder with the repository's examples.
Blocks that say why they are not run, or which other test runs them, are left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from minicluster.cluster import Cluster
from minicluster.settings import read_cluster
from peloton.specs import check
from tests.documented import PAGES, SHELL, blocks
from tools.docs import ROOT

SECONDS = 280.0
CLASSES = next(block for block in blocks(ROOT / "docs/schedules.md") if "priority_classes" in block.text)
BOTH_DOWN = 'until [ "$(peloton -o name host query -s down | wc -l)" = 2 ]; do sleep 0.5; done'
pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    jobmgr = {"enable_secrets": True, **yaml.safe_load(CLASSES.text)}
    cluster = Cluster(tmp_path_factory.mktemp("pages") / "cluster")
    cluster.up(read_cluster(None, {"ports": "free", "settings": {"jobmgr": jobmgr}}))
    try:
        yield cluster
    finally:
        cluster.down()


class Walk:
    """Runs the blocks of pages in a folder."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._folder = folder
        for name in ("examples", "deploy"):
            (folder / name).symlink_to(ROOT / name)
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("PELOTON_", "JOBMGR_"))
        }
        self._environment = {
            **own,
            **cluster.urls(),
            "HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PELOTON_MINICLUSTER_DIR": str(cluster.directory),
            "TIMEOUT": "60s",
        }

    def page(self, name: str, replaced: dict[str, str]) -> str:
        """Run the blocks of a page, with some text replaced by another; return what they print."""
        script = []
        for block in blocks(ROOT / name):
            if block.mark or block.language not in (*SHELL, "python"):
                continue
            text = block.text
            if block.language == "python":
                text = f"python - <<'END'\n{text}END\n"
            script.append(f"echo '== {block.place}'\n{text}")
        whole = "".join(script)
        for old, new in replaced.items():
            assert old in whole, (name, old)
            whole = whole.replace(old, new)
        return self.script(whole)

    def script(self, script: str) -> str:
        """Run a script, and see that no command of it fails."""
        done = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", script],
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        assert "Traceback" not in done.stdout and "defect" not in done.stdout, done.stdout
        return done.stdout


@pytest.fixture
def walk(cluster: Cluster, tmp_path: Path) -> Walk:
    return Walk(cluster, tmp_path)


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The pool that the README makes."""
    pools = Walk(cluster, tmp_path_factory.mktemp("pool")).script("peloton respool tree")
    if "DefaultResPool" not in pools:
        create = "peloton respool create /DefaultResPool examples/default_respool.yaml"
        Walk(cluster, tmp_path_factory.mktemp("pool")).script(create)


def test_the_readme(cluster: Cluster, walk: Walk) -> None:
    urls = cluster.urls()
    printed = walk.page(
        "README.md",
        {
            "make setup  ": "# ",
            ". .venv/bin/activate\n": "",
            "peloton minicluster up  ": "# ",
            "peloton minicluster down  ": "# ",
            'jm_url="localhost:5392"': f'jm_url="{urls["JOBMGR_URL"]}"',
            'rm_url="localhost:5394"': f'rm_url="{urls["RESMGR_URL"]}"',
            'hm_url="localhost:5391"': f'hm_url="{urls["HOSTMGR_URL"]}"',
        },
    )
    assert re.search(r"10/10 ended: SUCCEEDED 10", printed), printed
    assert "1 | " in printed and re.search(r"\n[0-9a-f-]{36}\n", printed), printed


@pytest.mark.usefixtures("pool")
def test_the_user_guide(walk: Walk) -> None:
    printed = walk.page("docs/user-guide.md", {})
    assert printed.count("SUCCEEDED  3/3 done: RUNNING 3") >= 3, printed
    assert "MESOS_SANDBOX=" in printed and re.search(r"Volume .* is deleted", printed), printed


@pytest.mark.usefixtures("pool")
def test_the_specs_of_the_pages_are_planned(walk: Walk, tmp_path: Path) -> None:
    script = []
    for page in PAGES:
        for block in blocks(page):
            if (
                block.language == "yaml"
                and not block.mark
                and check(block.text, "x").kind in ("job", "service")
            ):
                file = f"{page.stem}-{block.line}.yaml"
                (tmp_path / file).write_text(block.text)
                script.append(f"echo '== {block.place}'; peloton plan {file} --pool /DefaultResPool\n")
    assert len(script) >= 6
    printed = walk.script("".join(script))
    assert printed.count("As things are now") + printed.count("Nothing is created") >= len(script)


@pytest.mark.usefixtures("pool")
def test_the_operators_page(walk: Walk) -> None:
    walk.page(
        "docs/operations.md",
        {
            "peloton host query -s down ": f"{BOTH_DOWN}\npeloton host query -s down ",
            "start HOST...": "start peloton-mesos-agent1 peloton-mesos-agent2",
            "complete HOST...": "complete peloton-mesos-agent1 peloton-mesos-agent2",
            "change HOST shared": "change peloton-mesos-agent0 shared",
        },
    )
