"""What an installation takes of the specs of jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobmgr.services.common.template_trials import TemplateTrials
from peloton.model.priority import NO_CLASSES, PriorityClasses


@dataclass(frozen=True, slots=True)
class SpecRules:
    """What depends on the installation when the spec of a job is checked."""

    secrets: bool = False
    """Whether jobs may have secrets."""
    images: bool = True
    """Whether hosts run the images of containers."""
    tokens: bool = True
    """Whether there are keys for the tokens by which tasks call Peloton."""
    classes: PriorityClasses = field(default_factory=lambda: NO_CLASSES)
    """The priority classes that jobs may name."""
    trials: TemplateTrials = field(default_factory=TemplateTrials)
    """Asks the clusters whether they take a pod template."""


PLAIN_SPECS = SpecRules()
"""Of an installation where nothing is set."""
