"""kubectl, the one that `make kubectl` builds and the one that is installed, and an informer of client-go."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

FOLDER = Path(__file__).parent
_MODULE = re.compile(r"k8s\.io/kubectl => k8s\.io/kubectl v0\.(\S+)")


def _built(name: str) -> Path:
    found = _MODULE.search((FOLDER / "go.mod").read_text())
    assert found is not None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "peloton" / f"kubectl-1.{found[1]}" / name


def built() -> Path:
    """Return where the built one is, or would be."""
    return _built("kubectl")


def informer() -> Path:
    """Return where the informer is, or would be."""
    digest = hashlib.sha256((FOLDER / "informer" / "main.go").read_bytes()).hexdigest()[:8]
    return _built(f"informer-{digest}")


def known() -> list[Path]:
    """Return those that are there."""
    installed = shutil.which("kubectl")
    found = [built(), *([Path(installed)] if installed else [])]
    return [each for each in found if each.exists()]
