"""Values that programs get wrong, by the type and the name of a field."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from google.protobuf.descriptor import FieldDescriptor as F

NON_FINITE = (float("nan"), float("inf"), float("-inf"))
FLOATS = (
    *(0.0, -0.0, 0.1, 1.0, 0.5, 2.0, 100.0, 1e-9, 5e-324, -1.0, -0.001, 1.5, 1e6, 1e9, 1e12, 1e15, 1e18),
    *(1.7976931348623157e308, -1e308, 2.0**53 + 2, 2.0**63, 9.223372036854775e15, 9.3e15, 0.00049),
)
SMALL = (0, 0, 1, 1, 2, 3, 5, 10)
EDGES = {32: (2**31 - 1, -(2**31), -1, 10**6, 2**30), 64: (2**63 - 1, -(2**63), -1)}
UNSIGNED = {
    32: (2**32 - 1, 2**32 - 1, 2**31, 10**6, 150_000, 20_000),
    64: (2**64 - 1, 2**63, 2**53 + 1, 10**18),
}
TIMES = (10**9, 1_700_000_000, 1_700_000_000_000, 10**18, 253402300799, 253402300800, 2**40)
TEXTS = (
    *(
        "",
        "",
        "a",
        "/",
        "//",
        "/a/b/",
        "..",
        "../../etc/passwd",
        ".",
        "*",
        "?",
        "%s%n{}",
        "\\",
        "'",
        '"',
        ";",
    ),
    *("\x00", "a\x00b", "\n", "\r\n\r\n", "\t", "\x7f", "\u202e", "\ufeff", "é", "e\u0301", "漢字", "😀"),
    *(
        "-1",
        "0",
        "1",
        "4294967296",
        "NaN",
        "inf",
        "1e309",
        "null",
        "true",
        "[]",
        "{}",
        "0x10",
        "1-1-1",
        "1-0-0",
    ),
    *(
        "00000000-0000-0000-0000-000000000000",
        "g" * 36,
        "a-b-c",
        "--",
        "-0-1",
        "root",
        "default",
        "cpus",
        "cpu",
    ),
    *("{{x}}", "${x}", "`id`", "<b>", "&amp;", "http://x/", "cluster/host", "/x", "x/", "\u00a0", " ", "A=b"),
    *(
        "2026-01-31T12:00:00Z",
        "9999-99-99",
        "10ms",
        "peloton.io",
        "peloton/type",
        "hostname",
        "rack",
        "ports",
    ),
)
NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("cpu", "memory", "disk", "gpu", "CPU", "x"),
    "filter": ("cluster:", "a=b"),
    "state": ("RUNNING", "x"),
    "property": ("creation_time", "completion_time", "name", "owner", "state", "instanceId", "x"),
}
LONG = (200, 1025, 5000, 100_000)


def number(rng: random.Random, field: F) -> int:
    """Return an integer that the type of the field has."""
    bits = 64 if field.cpp_type in (F.CPPTYPE_INT64, F.CPPTYPE_UINT64) else 32
    unsigned = field.cpp_type in (F.CPPTYPE_UINT32, F.CPPTYPE_UINT64)
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(SMALL)
    if "port" in field.name.lower():
        return rng.choice((65535, 65536, 31000))
    if kind < 0.7:
        return rng.choice([each for each in TIMES if each < 2 ** (bits - 1)])
    if unsigned:
        return rng.choice(UNSIGNED[bits])
    return rng.choice(EDGES[bits])


def floating(rng: random.Random) -> float:
    return rng.choice(NON_FINITE) if rng.random() < 0.02 else rng.choice(FLOATS)


def text(rng: random.Random, known: Sequence[str], name: str) -> str:
    """Return a text for a field of this name; `known` are those that name something."""
    kind = rng.random()
    if kind < 0.55 and known:
        return rng.choice(known)
    for part, texts in NAMES.items():
        if part in name and kind < 0.8:
            return rng.choice(texts)
    if kind > 0.995:
        return rng.choice("aé\x01") * rng.choice(LONG)
    if kind > 0.9:
        return "".join(rng.choice("ab-_./:0 ") for _ in range(rng.randrange(12)))
    return rng.choice(TEXTS)


def octets(rng: random.Random) -> bytes:
    return rng.choice((b"", b"\x00", b"\xff\xfe", b"a" * 5000, b"\x08\x01", rng.randbytes(16)))


_WORD = re.compile(rb"[ -~]{4,}")


def broken_text(rng: random.Random, raw: bytes) -> bytes:
    """Return bytes of the same length in which one of the texts is not UTF-8."""
    words = list(_WORD.finditer(raw))
    if not words:
        return raw
    data, word = bytearray(raw), rng.choice(words)
    data[rng.randrange(word.start() + 1, word.end())] = rng.choice((0xC3, 0xFF))
    return bytes(data)


def mutated(rng: random.Random, raw: bytes, longest: int = 200_000) -> bytes:
    """Return bytes with a few changes: cut, flipped, inserted, repeated."""
    data = bytearray(raw[:longest])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(7)
        if kind == 0:
            del data[at:]
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        elif kind == 3:
            end = min(len(data), at + rng.randint(1, 40))
            data[at:at] = data[at:end]
        elif kind == 4:
            del data[at : at + rng.randint(1, 8)]
        elif kind == 5 and at < len(data):
            data[at] = rng.choice((0, 0x7F, 0x80, 0xFF))
        else:
            data += rng.choice(
                (b"\xfa\x7f\x01x", b"\x08" + b"\xff" * 9 + b"\x01", b"\x0b", b"\x82\x80\x80\x80\x78\x00")
            )
    return bytes(data)
