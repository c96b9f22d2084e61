"""benchmarks/sharing.py: what it runs in which order, and what it prints."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.sharing import ALONE, CPU, KINDS, Figures, Kind, compare, in_turn, parsed, settings_of


def test_what_follows_two_dashes_says_what_is_run() -> None:
    options = parsed(["--rounds", "5", "--", "--tasks", "40", "--hosts", "7", "--jobs", "4"])
    assert (options.rounds, options.tasks, options.hosts, options.jobs) == (5, 40, 7, 4)


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--tasks", "10", "--jobs", "3"]])
def test_what_cannot_be_run_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(arguments)
    assert arguments[0] in capsys.readouterr().err


def test_each_kind_is_first_and_last_once_in_as_many_rounds() -> None:
    rounds = [in_turn(number) for number in range(len(KINDS))]
    assert {each[0] for each in rounds} == {each[-1] for each in rounds} == set(KINDS)
    assert all(set(each) == set(KINDS) for each in rounds)


def test_only_what_is_compared_differs() -> None:
    options = parsed(["--hosts", "7"])
    found = {kind.name: settings_of(kind, options) for kind in KINDS}
    assert {name: each.instances.jobmgr for name, each in found.items()} == {
        "one": 1,
        "one with shared": 1,
        "two with shared": 2,
    }
    shared = [each.settings.jobmgr["shared"] for each in found.values()]
    assert shared == [False, True, True]
    assert {each.simulated.agents for each in found.values() if each.simulated} == {7}


def test_ratios_are_to_one_job_manager_of_the_same_round(capsys: pytest.CaptureFixture[str]) -> None:
    """The second round has half the speed: the ratios are the same in both."""
    factors = dict(zip(KINDS, (1.0, 1.02, 1.5), strict=True))
    ran: list[Kind] = []

    def run(kind: Kind, options: argparse.Namespace) -> Figures:
        slowness = 1 + len(ran) // len(KINDS)
        ran.append(kind)
        return {CPU: 100 * factors[kind] * slowness}

    assert compare(parsed(["--rounds", "2"]), run) == 0
    assert [ran.count(kind) for kind in KINDS] == [2, 2, 2] and ran[0] is ALONE
    said = capsys.readouterr().out
    rows = [line.split() for line in said.splitlines() if line.startswith(CPU)]
    assert [row[-4:] for row in rows] == [
        ["1.020", "1.020..1.020", "1.020..1.020", "worse"],
        ["1.500", "1.500..1.500", "1.500..1.500", "worse"],
    ]
