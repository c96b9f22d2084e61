"""Files with keys, for this user alone: a line each, in Base64."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path

from peloton.config.config_error import ConfigError
from peloton.config.private import require_private

KEY_BYTES = 32


def keys_in(path: Path, setting: str) -> Sequence[bytes]:
    """Return the keys of a file, one or more of KEY_BYTES. Raises ConfigError, which never shows a key."""
    require_private(path, setting)
    try:
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
        keys = [base64.b64decode(line, validate=True) for line in lines]
    except OSError as error:
        raise ConfigError(f"{setting}: {path}: {error.strerror}") from None
    except (UnicodeDecodeError, binascii.Error):
        keys = []
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise ConfigError(
            f"{setting}: {path}: should have a key on each line, {KEY_BYTES} bytes in Base64, such as "
            f"`openssl rand -base64 {KEY_BYTES}` makes"
        )
    return keys
