"""The shared secret by which the daemons of a cluster know each other."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from peloton.config.errors import ConfigError
from peloton.config.private import require_private

SHORTEST_CHARACTERS = 32
_TOKEN = re.compile(rf"[A-Za-z0-9._~+/=-]{{{SHORTEST_CHARACTERS},512}}")


@dataclass(frozen=True, slots=True)
class DaemonTokens:
    """The tokens of a file, one a line. The first is sent, and all are accepted: so it can be changed."""

    tokens: Sequence[bytes] = field(repr=False)

    @property
    def sent(self) -> str:
        """The token of own calls."""
        return self.tokens[0].decode()

    def accept(self, given: str) -> bool:
        """Return whether a token is one of them; takes the same time for any."""
        raw = given.encode(errors="replace")
        return sum(hmac.compare_digest(raw, token) for token in self.tokens) > 0


def read_tokens(path: Path) -> DaemonTokens:
    """Read the file. Raises ConfigError; never shows a token."""
    require_private(path, "auth.token_file")
    try:
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"auth.token_file: {path}: {error}") from None
    if not lines or not all(_TOKEN.fullmatch(line) for line in lines):
        raise ConfigError(
            f"auth.token_file: {path}: should have a token on each line, {SHORTEST_CHARACTERS} to 512 "
            "letters, digits or ._~+/=- without spaces, such as `openssl rand -hex 32` makes"
        )
    return DaemonTokens([line.encode() for line in lines])
