"""`peloton job validate` and `peloton job schema`: specs, without a cluster."""

from __future__ import annotations

import click

from peloton.cli.exit_codes import DONE, REFUSED
from peloton.cli.groups import Command
from peloton.cli.live_names import files
from peloton.cli.session import Session, pass_session

KINDS = ("job", "service", "respool")


@click.command(cls=Command)
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, shell_complete=files)
@click.option("--kind", type=click.Choice(KINDS), help="What the files are.  [default: as their keys show]")
@pass_session
def validate(session: Session, paths: tuple[str, ...], kind: str | None) -> int:
    """Check specs (YAML, `-` for standard input) without a cluster; list all that is wrong, with its line.

    Checked are the form, and for jobs and services the rules by which the job manager refuses them, of which
    the first that is broken is told. Whether a pool takes the job and hosts have room is what `job create
    --dry-run` says. Of resource pools, only the form is checked. What is taken but will hardly work as meant,
    such as an empty name, is warned of, and the spec is valid. A manifest of Kubernetes, a job of Nomad and a
    batch script of Slurm are recognised: for their keys, those here are listed.
    """
    from peloton.cli.output import say
    from peloton.client.yamltree import read_text
    from peloton.specs import check

    checked = [check(read_text(path), path, kind or "") for path in paths]
    for each in checked:
        for error in (*each.errors, *each.warnings) if session.plain else ():
            say(str(error))
    valid = [f"{each.file}: a valid {each.kind} spec" for each in checked if not each.errors]
    session.show([each.plain() for each in checked], lambda: "\n".join(valid))
    return REFUSED if any(each.errors for each in checked) else DONE


@click.command(cls=Command)
@click.argument("kind", type=click.Choice(KINDS), default="job")
@pass_session
def schema(session: Session, kind: str) -> None:
    """Print the JSON Schema of a kind of spec, for editors.

    After `peloton job schema service > service.schema.json`, a spec that begins with the line
    `# yaml-language-server: $schema=service.schema.json` is completed and checked by editors that know it.
    The schema knows a key in two forms, such as default_spec and defaultSpec.
    """
    from peloton.cli.output import json_text
    from peloton.cli.schema import schema as schema_of
    from peloton.specs import message_type

    content = schema_of(message_type(kind), f"Peloton {kind} spec")
    session.show(content, lambda: json_text(content))


SPEC_COMMANDS = (validate, schema)
