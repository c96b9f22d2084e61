"""docs/settings.md is what the classes say."""

from __future__ import annotations

from archiver.config import ArchiverSettings
from hostmgr.config import HostmgrSettings
from jobmgr.config import JobmgrSettings
from peloton.config.reference import page, variables
from peloton.config.settings import ProcessSettings
from peloton.config.sources import variable_targets
from peloton.web.config import WebSettings
from placement.config import PlacementSettings
from resmgr.config import ResmgrSettings
from tests.unit.deploy.compose import ROOT

CLASSES: tuple[type[ProcessSettings], ...] = (
    JobmgrSettings,
    ResmgrSettings,
    PlacementSettings,
    HostmgrSettings,
    ArchiverSettings,
    WebSettings,
)


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == page(CLASSES), "run `make settings`"


def test_the_names_of_variables_are_up_to_date() -> None:
    assert (ROOT / "peloton" / "config" / "variables.py").read_text() == variables(CLASSES), (
        "run `make settings`"
    )


def test_every_setting_has_a_description() -> None:
    rows = [line for line in page(CLASSES).splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.replace(" ", "").endswith("||")] == []


def test_every_setting_and_variable_is_listed() -> None:
    text = page(CLASSES)
    for cls in CLASSES:
        assert all(f"| `{name}` |" in text for name in cls.model_fields)
        assert all(f"| `{target.variable.name}` |" in text for target in variable_targets(cls))
