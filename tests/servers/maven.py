"""Java servers' jars, by Maven: the minicluster's own."""

from __future__ import annotations

from minicluster.servers.maven import Broken, Missing, cache, class_path, jars, java

__all__ = ["Broken", "Missing", "cache", "class_path", "jars", "java"]
