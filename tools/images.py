"""Pin the images that containers are made from by digest: `make images` asks the registry and writes `.env`.

    python -m tools.images            # look the digests up with docker, and write them to .env
    python -m tools.images --check    # say which images .env does not pin; the exit code is 1 where some are

A tag may be given to another image later; a digest names one image for ever. The Dockerfile is not built
without that of its base, which only a registry knows: none is made up here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LOOK_UP_SECONDS = 120
_SERVICES = re.compile(r"\$\{(\w+_IMAGE):-([^}]+)\}")
_BASE = re.compile(r"^ARG PYTHON_IMAGE=(\S+)$", re.MULTILINE)
OURS = "PELOTON_IMAGE"
BASE, BASE_DIGEST = "PYTHON_IMAGE", "PYTHON_DIGEST"


def images(root: Path) -> dict[str, str]:
    """Return the images of others with their tags, by the variable that chooses each."""
    (base,) = _BASE.findall((root / "Dockerfile").read_text())
    services = _SERVICES.findall((root / "docker-compose.yml").read_text())
    return {BASE: base, **{name: image for name, image in services if name != OURS}}


def pinned(root: Path) -> dict[str, str]:
    """Return the variables that .env sets."""
    file = root / ".env"
    lines = file.read_text().splitlines() if file.exists() else []
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def lacking(root: Path) -> list[str]:
    """Return the images that .env does not pin by a digest."""
    held = pinned(root)
    return [
        image
        for name, image in images(root).items()
        if not DIGEST.fullmatch(held.get(BASE_DIGEST if name == BASE else name, "").rpartition("@")[2])
    ]


def digest_of(image: str) -> str:
    """Ask the registry for the digest of a tag. Raise OSError, and ValueError where the answer is none."""
    argv = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{.Manifest.Digest}}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LOOK_UP_SECONDS, check=False)
    found = done.stdout.strip()
    if done.returncode != 0 or not DIGEST.fullmatch(found):
        raise ValueError(f"{image}: docker tells no digest: {(done.stderr or done.stdout).strip()}")
    return found


def pin(root: Path, look_up: Callable[[str], str]) -> None:
    """Write the digests of all images to .env; what else is in it stays."""
    found = {name: (image, look_up(image)) for name, image in images(root).items()}
    values = {
        BASE_DIGEST if name == BASE else name: digest if name == BASE else f"{image}@{digest}"
        for name, (image, digest) in found.items()
    }
    file = root / ".env"
    lines = file.read_text().splitlines() if file.exists() else []
    file.write_text("\n".join([*_without(lines, values), *_lines(values)]) + "\n")


def _without(lines: Sequence[str], values: Mapping[str, str]) -> list[str]:
    return [line for line in lines if line.partition("=")[0] not in values]


def _lines(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]


def main(arguments: Sequence[str]) -> int:
    """Look digests up, or check that they are there."""
    if "--check" in arguments:
        missing = lacking(ROOT)
        for image in missing:
            print(f"{image}: .env has no digest of it: `make images` looks it up")
        return 1 if missing else 0
    try:
        pin(ROOT, digest_of)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
