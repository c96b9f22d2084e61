"""The search of the secret scan finds what it is to find: a planted secret, in every place and form."""

from __future__ import annotations

import base64
import html
import json
import sqlite3
import subprocess
import sys
import urllib.parse
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.identity.certs import make_authority
from tests.cluster.leaks import (
    Allowed,
    Find,
    Secret,
    files,
    leaks,
    of_key_file,
    processes,
    rows,
    search,
    unused,
)

TEXT = "k\"/+<\u00e9' and the rest of it, which is long enough"
SECRET = Secret("planted", TEXT.encode())
OTHER = Secret("other", b"this one is nowhere at all")


def found(place: bytes, name: str = "log") -> set[Find]:
    return search([("before", b"nothing"), (name, place)], [OTHER, SECRET])


WAYS: dict[str, Callable[[str], bytes]] = {
    "as it is": str.encode,
    "Base64": lambda text: base64.b64encode(text.encode()),
    "Base64 of what begins with one more byte": lambda text: base64.b64encode(b"a" + text.encode()),
    "Base64 of what begins with two more bytes": lambda text: base64.b64encode(b":a" + text.encode()),
    "Base64 for URLs": lambda text: base64.urlsafe_b64encode(b"\xff\xfe\xfd" + text.encode()),
    "hex": lambda text: text.encode().hex().encode(),
    "HEX": lambda text: text.encode().hex().upper().encode(),
    "a part of a URL": lambda text: urllib.parse.quote(text, safe="").encode(),
    "the path of a URL": lambda text: urllib.parse.quote(text).encode(),
    "a form": lambda text: urllib.parse.urlencode({"password": text}).encode(),
    "JSON": lambda text: json.dumps({"a": [text]}).encode(),
    "JSON in UTF-8": lambda text: json.dumps({"a": [text]}, ensure_ascii=False).encode(),
    "HTML": lambda text: html.escape(text).encode(),
    "a message": lambda text: peloton_pb2.JobID(value=text).SerializeToString(),
    "a message as text": lambda text: str(peloton_pb2.JobID(value=text)).encode(),
    "bytes of a message as text": lambda text: str(
        peloton_pb2.Secret(value=peloton_pb2.Secret.Value(data=text.encode()))
    ).encode(),
    "bytes in Python": lambda text: repr(text.encode()).encode(),
    "text in Python": lambda text: repr(text).encode(),
    "cut off": lambda text: text.encode()[:24],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_planted_secret_is_found_however_it_is_written(way: str) -> None:
    leaked = b'2026-11-23T05:00:00.000Z D peloton.access {"x": "' + WAYS[way](TEXT) + b'"} and more\n'
    assert found(leaked) == {Find("planted", "log", "")}
    assert not found(leaked.replace(WAYS[way](TEXT), b"******"))


def test_the_name_of_a_file_is_searched_too() -> None:
    assert found(b"", f"sandbox/{TEXT}/stdout")


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(AssertionError, match="weak is too short"):
        search([], [Secret("weak", b"12345")])


def test_only_where_it_may_be_it_is_no_leak() -> None:
    places = [("auth/ann.yaml", TEXT.encode()), ("log/jobmgr0.log", TEXT.encode())]
    table = [Allowed("plan*", "auth/*")]
    assert leaks(search(places, [SECRET]), table) == [Find("planted", "log/jobmgr0.log", "")]
    assert leaks(search(places[:1], [SECRET]), table) == []
    assert unused(search(places[:1], [SECRET]), table) == []
    assert unused(search(places[1:], [SECRET]), table) == table
    assert leaks(search(places[:1], [SECRET]), [Allowed("other", "auth/*")])


def test_files_rows_and_processes_are_searched(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file").write_bytes(b"\0\xff" + SECRET.content)
    (tmp_path / "none").write_bytes(b"nothing")
    assert search(files(tmp_path), [SECRET]) == {Find("planted", "deep/er/file", "")}
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        db.execute("CREATE TABLE a (b BLOB, c)")
        db.execute("CREATE TABLE d (e)")
        db.execute("INSERT INTO a VALUES (?, 7)", (b"x" * 5000 + SECRET.content + b"x" * 5000,))
        db.commit()
    assert search(rows(tmp_path / "x.db"), [SECRET]) == {Find("planted", "table a", "")}
    program = "import sys; print(flush=True); sys.stdin.read()"
    for arguments, variables, what in (([TEXT], {}, "cmdline"), ([], {"KEY": TEXT}, "environ")):
        command = [sys.executable, "-c", program, *arguments]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe) as one:
            assert one.stdout is not None
            one.stdout.readline()  # it has begun: its command line is its own
            (find,) = search(processes(), [SECRET])
            one.communicate(b"")
        assert find.place.startswith(what)


def test_a_private_key_is_found_in_its_file_and_not_in_its_certificate(tmp_path: Path) -> None:
    import datetime

    pair = make_authority(tmp_path, "test", datetime.datetime.now(datetime.UTC))
    secrets = of_key_file(pair.key)
    places = list(files(tmp_path))
    finds = search(places, secrets)
    assert {find.place for find in finds} == {"ca.key"}
    assert {find.secret for find in finds} >= {"key ca, its second line"}
    oneline = "".join(pair.key.read_text().splitlines()[1:-1]).encode()
    assert {find.secret for find in search([("log", oneline)], secrets)} >= {"key ca"}
