"""A small authority, and certificates of it: for tests and small clusters."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from peloton.errors import AlreadyExists, InvalidArgument

CA_DAYS, LONGEST_DAYS = 3650, 825
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


def authority_in(folder: Path) -> Pair:
    """Return the files of the authority in a folder."""
    return Pair(folder / "ca.crt", folder / "ca.key")


def make_authority(folder: Path, name: str, now: datetime.datetime) -> Pair:
    """Make an authority in a folder. Raises AlreadyExists."""
    files = authority_in(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        _builder(subject, subject, key.public_key(), now, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(files, key, made)
    return files


def issue(
    folder: Path, name: str, hosts: Sequence[str], days: int, now: datetime.datetime, out: Path | None = None
) -> Pair:
    """Issue a certificate for a name and addresses, for servers and clients.

    Raises InvalidArgument, AlreadyExists.
    """
    if not 1 <= days <= LONGEST_DAYS:
        raise InvalidArgument("days", days, f"a number from 1 to {LONGEST_DAYS}")
    ca = authority_in(folder)
    try:
        issuer = x509.load_pem_x509_certificate(ca.certificate.read_bytes())
        signer = serialization.load_pem_private_key(ca.key.read_bytes(), None)
    except OSError as error:
        raise InvalidArgument("folder", str(folder), f"one with an authority: {error.strerror}") from None
    except ValueError:
        raise InvalidArgument("folder", str(folder), "one with an authority: ca.crt, ca.key in PEM") from None
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        _builder(subject, issuer.subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName([_name(host) for host in (name, *hosts)]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    files = Pair((out or folder) / f"{name}.crt", (out or folder) / f"{name}.key")
    _write(files, key, made)
    return files


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass  # it is a name
    if not host.isascii() or not host or any(letter in host for letter in " /,"):
        raise InvalidArgument("host", host, "a host name or an address")
    return x509.DNSName(host)


def _write(files: Pair, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    """Write both. Raises AlreadyExists: an authority that is replaced makes its certificates worthless."""
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        for file, content, mode in (
            (files.key, pem, 0o600),
            (files.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644),
        ):
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
                opened.write(content)
    except FileExistsError as error:
        raise AlreadyExists(f"{error.filename} exists already: remove it first") from None
