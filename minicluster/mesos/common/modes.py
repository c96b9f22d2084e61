"""Modes of what masters and agents make.

An agent that runs as root runs tasks as other users: these reach their sandboxes, volumes and secrets through
folders that they cannot list.
"""

from __future__ import annotations

import os

PASSABLE = 0o711 if os.geteuid() == 0 else 0o700
"""Folders on the way to what is a task's."""
