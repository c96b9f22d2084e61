"""`--query`: parts of the JSON output, for scripts."""

from __future__ import annotations

import json

import pytest
import yaml

from peloton.cli.json_query import lines

from .conftest import Run
from .fakes import FakeDaemons
from .test_output import JOB, info, jobs


@pytest.fixture(autouse=True)
def answers(daemons: FakeDaemons) -> None:
    daemons.answers.update({"Query": jobs(), "Get": info()})


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        ("results[].id.value", f"{JOB}\n"),
        ("results[0].name", "web\n"),
        ("results[].[name, runtime.state]", "web\tRUNNING\n"),
        ("results[].{job: name}", '{"job": "web"}\n'),
        ("length(results)", "1\n"),
        ("results[?name=='api'].id.value", ""),
        ("no.such.field", ""),
    ],
)
def test_a_part_of_the_output_is_printed(run: Run, expression: str, printed: str) -> None:
    assert run("job", "query", "--query", expression) == (0, printed, "")
    assert run("-q", expression, "job", "query") == (0, printed, "")


def test_the_field_names_are_those_of_the_json_output(run: Run) -> None:
    whole = json.loads(run("-j", "job", "query").out)
    for key, value in whole["results"][0].items():
        assert json.loads(run("-j", "-q", f"results[0].{key}", "job", "query").out) == value


def test_what_is_chosen_is_printed_in_the_form_that_is_asked_for(run: Run) -> None:
    assert json.loads(run("job", "query", "-j", "--query", "results[].name").out) == ["web"]
    assert yaml.safe_load(run("-q", "results[].name", "job", "query", "--output", "yaml").out) == ["web"]
    assert run("job", "query", "-j", "--query", "nothing").out == "null\n"


def test_a_short_flag_of_a_command_stays_its_own(run: Run, daemons: FakeDaemons) -> None:
    assert run("job", "query", "-q", "7").code == 0
    assert daemons.requests("Query")[-1].spec.pagination.maxLimit == 7
    assert run("job", "get", JOB, "-q", "jobInfo.config.name").out == "web\n"


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("results[", "'results[' is no expression of JMESPath: "),
        ("", "an expression of JMESPath is missing, such as results[].id.value"),
    ],
)
def test_what_is_no_expression_is_refused_before_anything_is_called(
    run: Run, daemons: FakeDaemons, expression: str, told: str
) -> None:
    failed = run("job", "query", "--query", expression)
    assert (failed.code, failed.out) == (2, "")
    assert told in failed.err
    assert not daemons.requests("Query")


def test_a_function_that_does_not_take_what_it_finds_is_refused(run: Run) -> None:
    failed = run("job", "query", "--query", "length(results[0].runtime.startTime || `5`)")
    assert (failed.code, failed.out) == (1, "")
    assert "--query" in failed.err and "length" in failed.err


def test_texts_and_numbers_are_printed_as_they_are() -> None:
    assert lines(["a", 1, True, None, {"b": ["é"]}, ["x", 2]]) == 'a\n1\ntrue\nnull\n{"b": ["é"]}\nx\t2'
    assert lines("two\nlines") == "two\nlines"
    assert lines(None) == "" == lines([])
