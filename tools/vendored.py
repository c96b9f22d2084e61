"""The files of others among the web UI's own, which browsers load as they are: packages of npm.

python -m tools.vendored          # compare them with the table below
python -m tools.vendored fetch    # get them anew, with npm; for another version, change the table first
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).resolve().parents[1] / "peloton" / "web" / "static"


@dataclass(frozen=True, slots=True)
class Vendored:
    """A file of a package of npm, and its name among the static files."""

    name: str
    package: str
    version: str
    path: str
    sha256: str


_XTERM, _FIT = ("@xterm/xterm", "6.0.0"), ("@xterm/addon-fit", "0.11.0")
FILES = (
    Vendored(
        "xterm.mjs",
        *_XTERM,
        "lib/xterm.mjs",
        "b336ec65a086c056d4804b3d4c2347da5663d3f23c3f25be866467bd8857ad59",
    ),
    Vendored(
        "xterm.css",
        *_XTERM,
        "css/xterm.css",
        "854a7c0fb70e8b1a083c16797ab827299fb18744f5ad34f227b48337e33293c6",
    ),
    Vendored(
        "xterm.LICENSE",
        *_XTERM,
        "LICENSE",
        "b569f629d00f2626a8100df2a1798210535621e42164dfd426a6fe5aac7b0ccd",
    ),
    Vendored(
        "xterm-fit.mjs",
        *_FIT,
        "lib/addon-fit.mjs",
        "2d87e1bddc73be9111de8beee5370c3bb7aac9c94e18e6f245f02ca741ef1769",
    ),
)
"""xterm.js draws the terminal in a task; its addon fits the terminal into the page. MIT licence, both."""


def changed() -> list[str]:
    """Return the names of files that are not those of the table."""
    return [
        each.name
        for each in FILES
        if hashlib.sha256((STATIC / each.name).read_bytes()).hexdigest() != each.sha256
    ]


def fetch() -> None:
    """Get the files of the table by npm."""
    with tempfile.TemporaryDirectory(prefix="peloton-vendored-") as folder:
        for package, version in dict.fromkeys((each.package, each.version) for each in FILES):
            command = ["npm", "pack", "--silent", f"{package}@{version}"]
            packed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
            with tarfile.open(Path(folder) / packed.strip()) as archive:
                for each in FILES:
                    if each.package == package:
                        found = archive.extractfile(f"package/{each.path}")
                        assert found is not None, f"{package} has no file {each.path}"
                        (STATIC / each.name).write_bytes(found.read())


def main(arguments: Sequence[str]) -> int:
    """Compare the files, or get them; return 1 where they differ from the table."""
    if list(arguments) == ["fetch"]:
        fetch()
    for name in changed():
        print(f"vendored: {name} is not the file that the table names", file=sys.stderr)
    return 1 if changed() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
