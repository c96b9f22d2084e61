"""A container engine for tests: the one that runs on this machine, else one of the tests' own.

The tests' own engine is of Debian's docker.io. Its files are in one folder, and its processes and mounts live
in namespaces that end with it (`keeper`). `base_images` makes the images that its registry has.
"""

from __future__ import annotations

from tests.servers.engine.running import Engine, container_engine

__all__ = ["Engine", "container_engine"]
