"""How amounts, sizes, times and shares are written for people."""

from __future__ import annotations

import pytest

from peloton.model.amounts import (
    amount,
    amount_of,
    byte_size,
    duration,
    elapsed,
    number,
    part_of,
    percent,
    plain,
    rounded,
    short,
)
from peloton.model.plural import plural


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (1, "cpu", "1 core"),
        (12.125, "cpu", "12.125 cores"),
        (0, "cpu", "0 cores"),
        (0.5, "revocable cpu", "0.5 revocable cores"),
        (1, "gpu", "1 GPU"),
        (1, "ports", "1 port"),
        (512, "memory", "512 MB memory"),
        (1536, "memory", "1.5 GB memory"),
        (1535, "memory", "1,535 MB memory"),
        (123_456_789.012, "memory", "123,456,789.012 MB memory"),
        (3 * 1024 * 1024, "disk", "3 TB disk"),
        (-2048, "disk", "-2 GB disk"),
        (4, "cpus", "4 cores"),
        (64, "mem", "64 MB memory"),
        (1e12, "cpu", "1,000,000,000,000 cores"),
    ],
)
def test_an_amount_is_exact_and_has_its_unit(value: float, kind: str, text: str) -> None:
    assert amount_of(value, kind) == text
    assert amount(value, kind) == text.removesuffix(" memory").removesuffix(" disk")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [(12.25, "cpu", "12.2 cores"), (1300, "memory", "1.27 GB"), (1, "gpu", "1 GPU"), (0, "cpu", "0 cores")],
)
def test_a_figure_that_changes_is_rounded(value: float, kind: str, text: str) -> None:
    assert rounded(value, kind) == text


@pytest.mark.parametrize(
    ("value", "whole", "kind", "text"),
    [
        (256, 2048, "memory", "0.25 of 2 GB"),
        (16, 20000, "disk", "0.02 of 19.5 GB"),
        (4096, 512, "memory", "4 of 0.5 GB"),
        (0.5, 1, "cpu", "0.5 of 1 core"),
        (0, 0, "gpu", "0 of 0 GPUs"),
    ],
)
def test_a_part_and_its_whole_have_the_same_unit(value: float, whole: float, kind: str, text: str) -> None:
    assert part_of(value, whole, kind) == text


def test_numbers() -> None:
    assert (plain(104857600.0), plain(0.5), plain(100)) == ("104857600", "0.5", "100")
    assert (number(104857600.0), number(1234.5), number(10)) == ("104,857,600", "1,234.5", "10")
    assert [short(each) for each in (0, 1234567, 0.126, 99.96, 1234.5)] == [
        "0", "1,234,567", "0.13", "100", "1,234",
    ]  # fmt: skip
    assert (plural(1, "host"), plural(2000, "host")) == ("1 host", "2,000 hosts")
    assert (percent(3, 8), percent(1, 0), percent(0.5)) == ("38%", "–", "50%")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.25, "0.25 s"), (9.5, "9.5 s"), (30, "30 s"), (59.7, "1 min"), (61, "1 min 1 s"),
        (3600, "1 h"), (3601, "1 h"), (7500, "2 h 5 min"), (90061, "1 d 1 h"),
    ],
)  # fmt: skip
def test_a_time_span_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_measured_time_span_is_in_whole_seconds() -> None:
    assert (elapsed(0.3), elapsed(2.6), elapsed(125.2)) == ("0 s", "3 s", "2 min 5 s")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 byte"),
        (1000, "1,000 bytes"),
        (1536, "1.5 KiB"),
        (1048576, "1 MiB"),
        (1048577, "1,048,577 bytes"),
    ],
)
def test_a_size_is_exact(count: int, text: str) -> None:
    assert byte_size(count) == text
