"""`peloton plan FILE` and `peloton run FILE`: every kind of job from its spec."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from peloton.cli.exit_codes import DONE, INTERRUPTED, REFUSED
from peloton.cli.groups import Command
from peloton.cli.live_names import files, live_pools
from peloton.cli.session import Session, pass_session

if TYPE_CHECKING:
    from peloton.specs import Checked

POOL = click.option(
    "--pool",
    default="/DefaultResPool",
    envvar="PELOTON_POOL",
    show_envvar=True,
    show_default=True,
    shell_complete=live_pools,
    help="Path of the resource pool, where the spec names none.",
)
_SPECS = (".yaml", ".yml")


def is_spec(words: Sequence[str]) -> bool:
    """Return whether the words are a file with a spec, and no program."""
    return len(words) >= 1 and (words[0] == "-" or words[0].endswith(_SPECS))


@click.command(cls=Command)
@click.argument("file", shell_complete=files)
@POOL
@pass_session
def plan(session: Session, file: str, pool: str) -> int:
    """Show what `run FILE` would do, and do nothing: FILE is the spec of a job or service (YAML, `-`: stdin).

    A new job: where its instances would go, what would wait and for what, whom it would preempt. A service of
    this name that runs in the pool: what would change.
    """
    from peloton.cli.spec_run import plan_of, wanted

    checked = _valid(file)
    if checked is None:
        return REFUSED
    job = wanted(session, checked, pool, _given("pool"))
    with _located(checked):
        shown, lines = plan_of(session, job)
    session.show(shown, lambda: "\n".join(lines))
    return DONE


def run_file(session: Session, file: str, pool: str, yes: bool, detach: bool, batch_size: int | None) -> int:
    """Create or update the job of a spec: show the plan, ask on a terminal, follow; return the exit code."""
    from peloton.cli.output import say
    from peloton.cli.spec_run import carried_out, follow_run, plan_of, wanted

    checked = _valid(file)
    if checked is None:
        return REFUSED
    job = wanted(session, checked, pool, _given("pool"))
    if not yes and sys.stdin.isatty():
        with _located(checked):
            lines = plan_of(session, job)[1]
        say("\n".join(lines))
        click.confirm("Go on?", abort=True, err=True)
    with _located(checked):
        job_id, warnings = carried_out(session, job, batch_size)
    text = f"Job {job_id} {'is being updated' if job.running is not None else 'created'}"
    if detach:
        session.show({"jobId": job_id}, lambda: text, job_id)
    elif session.plain:
        click.echo(text)
    for warning in warnings:
        say(warning)
    if detach:
        return DONE
    try:
        return follow_run(session, job, job_id)
    except KeyboardInterrupt:
        say(f"peloton: the job goes on: `peloton job why {job_id}`, `peloton job stop {job_id}`")
        return INTERRUPTED


def _valid(file: str) -> Checked | None:
    """Read and check a spec; say what is wrong with it, and return None then."""
    from peloton.cli.output import say
    from peloton.client.yamltree import read_text
    from peloton.specs import check

    checked = check(read_text(file), file)
    for error in (*checked.errors, *checked.warnings):
        say(f"peloton: {error}")
    return None if checked.errors else checked


def _located(checked: Checked) -> AbstractContextManager[None]:
    """Put the line of the spec before what the cluster refuses of it."""
    from peloton.cli.spec_check import located

    assert checked.parsed is not None
    return located(checked.parsed)


def _given(name: str) -> bool:
    from click.core import ParameterSource

    source = click.get_current_context().get_parameter_source(name)
    return source is not ParameterSource.DEFAULT
