"""The certificates and credentials of a secure cluster."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from minicluster.credentials import MASTER, make_credentials
from minicluster.layout import Layout
from peloton.config.private import make_folder


def test_certificates_that_an_older_cluster_lacks_are_issued_by_its_authority(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "cluster")
    make_folder(layout.root)
    make_credentials(layout)
    held = {file: file.read_bytes() for file in layout.certificates.iterdir()}
    certificate, key = layout.certificate_of(MASTER)
    certificate.unlink()  # the key is there: it was cut off between the two
    make_credentials(layout)
    now = {file: file.read_bytes() for file in layout.certificates.iterdir()}
    assert {file for file in held if held[file] != now[file]} == {certificate, key}
    authority = x509.load_pem_x509_certificate(layout.authority.read_bytes())
    x509.load_pem_x509_certificate(now[certificate]).verify_directly_issued_by(authority)
