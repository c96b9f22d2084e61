"""Specs that could never run are refused; those that will hardly work as meant are taken with a warning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from jobmgr.services.common.spec_warnings import SpecWarnings
from peloton.errors import InvalidArgument
from peloton.model.pool import KindConfig
from peloton.wire.job import config_payload, job_spec
from peloton.wire.payload import spec_from_v1alpha
from peloton.wire.v1alpha.job_config import job_spec_of
from peloton.wire.validation.job import validated
from peloton.wire.validation.v1alpha import check_spec
from storage.config import SqliteSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_services.configs import BATCH, POOLS, SERVICE, job
from tests.unit.jobmgr_services.fakes import FakeEngine

VOLUME = "defaultConfig {{ volume {{ containerPath: '{}' sizeMB: 10 }} {} }}"
CONTAINER = "container { type: MESOS mesos { image { type: DOCKER docker { name: 'i' } } } }"
LIMITS = {
    "cpu": KindConfig(limit=100_000),
    "memory": KindConfig(limit=10**9),
    "gpu": KindConfig(limit=12_000),
}

REFUSED = {
    "no resource": ("", "defaultConfig.resource", "without resources"),
    "no resource of one": ("instanceConfig { key: 1 value { resource {} } }", "defaultConfig.resource", ""),
    "above the sandbox": (VOLUME.format("../../etc", ""), "defaultConfig.volume.containerPath", "`..`"),
    "above within": (VOLUME.format("a/../../etc", ""), "defaultConfig.volume.containerPath", "`..`"),
    "the sandbox": (VOLUME.format(".", ""), "defaultConfig.volume.containerPath", "below the sandbox"),
    "absolute": (VOLUME.format("/etc", ""), "defaultConfig.volume.containerPath", "only a container"),
    "above in a container": (VOLUME.format("../x", CONTAINER), "defaultConfig.volume.containerPath", "`..`"),
    "name": (r"name: 'a\nb'", "name", "control characters"),
    "terminal": (r"name: 'a\033[2J'", "name", "control characters"),
    "direction": (r"name: 'a\342\200\256b'", "name", "control characters"),
    "owner": (r"owner: 'a\tb'", "owner", "control characters"),
    "team": (r"owningTeam: 'a\rb'", "owningTeam", "control characters"),
    "task": (r"defaultConfig { name: 'a\000' }", "defaultConfig.name", "control characters"),
    "port": (r"defaultConfig { ports { name: 'a\n' value: 1 } }", "defaultConfig.ports[0].name", "control"),
    "label": (r"labels { key: 'a\n' }", "labels[0].key", "control characters"),
}


@pytest.mark.parametrize(("text", "field", "said"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("v1alpha", [False, True], ids=["v0", "v1alpha"])
def test_a_spec_that_can_never_run_is_refused(text: str, field: str, said: str, v1alpha: bool) -> None:
    config = job(text, SERVICE)
    if "no resource" in said or field.endswith("resource"):
        config.defaultConfig.ClearField("resource")
    with pytest.raises(InvalidArgument) as caught:
        if v1alpha:
            check_spec(job_spec_of(config))
        else:
            validated(config)
    if not v1alpha:
        assert caught.value.field == field
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        VOLUME.format("data/a", ""),
        VOLUME.format("/var/data", CONTAINER),
        "description: 'of two\\nlines'",
        "labels { key: 'a' value: 'of two\\nlines' }",
    ],
)
def test_what_may_run_is_taken(text: str) -> None:
    validated(job(text, SERVICE))


def test_ports_alone_are_resources() -> None:
    config = job("defaultConfig { ports { name: 'a' envName: 'A' } }")
    config.defaultConfig.ClearField("resource")
    validated(config)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    for pool in (*POOLS[:1], *(replace(each, kinds=LIMITS) for each in POOLS[1:])):
        await opened.pools.write(pool)
    yield opened
    await opened.close()


WARNED = {
    "sound": ("", []),
    "empty name": ("name: ''", ["name: an empty name: nobody finds the job by it"]),
    "repeated label": (
        "labels { key: 'a' } labels { key: 'b' } labels { key: 'a' value: 'x' }",
        ["labels[0].key: 'a' is given more than once: each counts, and none replaces another"],
    ),
    "gang": (
        "instanceCount: 16 sla { minimumRunningInstances: 16 } defaultConfig { resource { gpuLimit: 1 } }",
        [
            "instances 0-15 wait until the limit is raised or the spec asks for less: "
            "gpu: gang 16 GPUs > limit 12 GPUs of /teams/batch"
        ],
    ),
    "gang within": (
        "instanceCount: 16 sla { minimumRunningInstances: 12 } defaultConfig { resource { gpuLimit: 1 } }",
        [],
    ),
    "gang with overrides": (
        "instanceCount: 3 sla { minimumRunningInstances: 2 } defaultConfig { resource { gpuLimit: 1 } } "
        "instanceConfig { key: 1 value { resource { gpuLimit: 11.5 } } }",
        [
            "instances 0-1 wait until the limit is raised or the spec asks for less: "
            "gpu: gang 12.5 GPUs > limit 12 GPUs of /teams/batch"
        ],
    ),
    "one": (
        "instanceConfig { key: 2 value { resource { cpuLimit: 101 } } }",
        [
            "instance 2 waits until the limit is raised or the spec asks for less: "
            "cpu: gang 101 cores > limit 100 cores of /teams/batch"
        ],
    ),
    "image": (
        f"defaultConfig {{ {CONTAINER} }}",
        [
            "defaultConfig.container.mesos.image: 'i' cannot be run: the agents of this cluster run no "
            "images; leave the image out, or have the agents run images (a minicluster is started with "
            "`--images docker` or `--images plain`)"
        ],
    ),
}


@pytest.mark.parametrize(("text", "expected"), WARNED.values(), ids=WARNED)
async def test_what_will_hardly_work_is_warned_of(store: Store, text: str, expected: list[str]) -> None:
    config = job(text, BATCH)
    if "name: ''" in text:
        config.name = ""
    validated(config)
    spec = job_spec(config, 1, config_payload(config))
    assert await SpecWarnings(FakeEngine(store), images=False).v0(spec) == expected


async def test_warnings_have_the_paths_of_the_api(store: Store) -> None:
    config = job(f"labels {{ key: 'a' }} labels {{ key: 'a' }} defaultConfig {{ {CONTAINER} }}", SERVICE)
    spec = spec_from_v1alpha(job_spec_of(config), 1)
    found = await SpecWarnings(FakeEngine(store), images=False).v1alpha(spec)
    assert [each.partition(": ")[0] for each in found] == [
        "labels[0].key",
        "default_spec.containers[0].container.mesos.image",
    ]
    assert len(await SpecWarnings(FakeEngine(store), images=True).v1alpha(spec)) == 1
