"""Run a script whose pauses are over once a file is there: `paced.py FILE SCRIPT [ARGUMENT...]`."""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path

file, script, *arguments = sys.argv[1:]
done, sleep = Path(file), time.sleep
time.sleep = lambda seconds: None if done.exists() else sleep(seconds)
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
