"""The whole test suite, in two processes side by side: `python -m tests`.

The tests of whole clusters mostly wait and the others mostly compute, so that two cores are done with both
in the time of the longer one. What the first prints comes in one piece, before the verdict of both.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

WAITING = ["tests/cluster", "tests/faults"]
COMMAND = [sys.executable, "-m", "pytest"]


def main() -> int:
    rest = [f"--ignore={folder}" for folder in WAITING]
    with tempfile.TemporaryFile("w+") as said:
        clusters = subprocess.Popen([*COMMAND, *WAITING], stdout=said, stderr=subprocess.STDOUT)
        try:
            others = subprocess.run([*COMMAND, *rest], check=False).returncode
            clusters.wait()
        finally:
            clusters.terminate()
            clusters.wait()
        said.seek(0)
        print(f"\n{' and '.join(WAITING)}:\n{said.read()}", flush=True)
    return others or clusters.returncode


if __name__ == "__main__":
    sys.exit(main())
