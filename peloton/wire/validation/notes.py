"""What of a valid spec will hardly work as meant: it is taken, and said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import shown
from peloton.wire.v1alpha.paths import v1alpha_path, v1alpha_text

MOST = 20
"""Notes of a kind that are told."""


class Note(NamedTuple):
    """A field, by its path, and what is odd about it."""

    path: str
    text: str

    def __str__(self) -> str:
        """Return both."""
        return f"{self.path}: {self.text}"

    @property
    def v1alpha(self) -> Note:
        """The same of the v1alpha spec that the config was made of."""
        return Note(v1alpha_path(self.path), v1alpha_text(self.text))


def notes(config: job_pb2.JobConfig) -> list[Note]:
    """Return what is odd about a config that was checked."""
    found = [] if config.name.strip() else [Note("name", "an empty name: nobody finds the job by it")]
    found += _repeated_labels(config.labels, "labels")
    for path, task in _tasks(config):
        found += _repeated_labels(task.labels, f"{path}.labels")
    return found[:MOST]


def image_notes(config: job_pb2.JobConfig) -> list[Note]:
    """Return which tasks ask for an image, for clusters whose agents run none."""
    text = (
        "{} cannot be run: the agents of this cluster run no images; leave the image out, or have the agents "
        "run images (a minicluster is started with `--images docker` or `--images plain`)"
    )
    return [
        Note(f"{path}.container.{field}", text.format(shown(image)))
        for path, task in _tasks(config)
        for field, image in [_image_of(task)]
        if image
    ][:MOST]


def _image_of(task: task_pb2.TaskConfig) -> tuple[str, str]:
    """Return the field with the image of a task's container, and its name; empty where there is none."""
    container = task.container
    if container.docker.image:
        return "docker.image", container.docker.image
    image = container.mesos.image
    return "mesos.image", image.docker.name or image.appc.name


def _repeated_labels(labels: Iterable[peloton_pb2.Label], path: str) -> Iterator[Note]:
    counts = Counter(label.key for label in labels)
    for i, label in enumerate(labels):
        if counts.pop(label.key, 1) > 1:
            text = f"{shown(label.key)} is given more than once: each counts, and none replaces another"
            yield Note(f"{path}[{i}].key", text)


def _tasks(config: job_pb2.JobConfig) -> Iterator[tuple[str, task_pb2.TaskConfig]]:
    yield "defaultConfig", config.defaultConfig
    for instance in sorted(config.instanceConfig):
        yield f"instanceConfig[{instance}]", config.instanceConfig[instance]
