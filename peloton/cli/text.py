"""Text in columns of a terminal."""

from __future__ import annotations

import shutil
import sys
import unicodedata

GAP = "  "


def columns(text: str) -> int:
    """Return the columns of a text on a terminal: two for a wide letter, none for a combining one."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def terminal_columns() -> int:
    """Return the columns of the terminal that the output goes to; 0 where it goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
