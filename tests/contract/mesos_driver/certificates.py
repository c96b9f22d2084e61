"""An authority of a test's own, and the certificates that it gives, made by the openssl command."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl() -> str:
    """Skips the test where there is none; in CI, where nothing may be missing, fails."""
    found = shutil.which("openssl")
    if found:
        return found
    told = "no openssl command, by which certificates are made"
    if os.environ.get("CI") == "true":
        pytest.fail(told)
    pytest.skip(told)


@dataclass(frozen=True, slots=True)
class Identity:
    """PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Its certificate is `file`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._own = Identity(folder / f"{name}.pem", folder / f"{name}.key")
        self._openssl(
            *("req", "-x509", *_KEY, "-subj", f"/CN={name}", "-days", "2"),
            *("-keyout", self._own.key, "-out", self._own.certificate),
        )

    @property
    def file(self) -> Path:
        return self._own.certificate

    def identity(self, name: str, alternatives: str) -> Identity:
        """`alternatives` as openssl has them: DNS:name,IP:address."""
        made = Identity(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request = self._folder / f"{name}.csr"
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n")
        self._openssl("req", *_KEY, "-subj", f"/CN={name}", "-keyout", made.key, "-out", request)
        self._openssl(
            *("x509", "-req", "-in", request, "-days", "2", "-extfile", extensions, "-out", made.certificate),
            *("-CA", self._own.certificate, "-CAkey", self._own.key, "-CAcreateserial"),
        )
        return made

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run([openssl(), *arguments], check=True, capture_output=True)
