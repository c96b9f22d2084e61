"""`peloton completion`: the completion of commands, flags and live names by the shell."""

from __future__ import annotations

import click

from peloton.cli.groups import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what SHELL has to evaluate so that it completes commands, flags and names.

    Names of jobs, pools, hosts and host pools are asked of the cluster, with a second's time; nothing is
    offered where it does not answer. A job is found by its id or the beginning of its name. For bash put
    `eval "$(peloton completion bash)"` into ~/.bashrc, for zsh `eval "$(peloton completion zsh)"` into
    ~/.zshrc behind compinit; for fish `peloton completion fish > ~/.config/fish/completions/peloton.fish`.
    """
    from peloton.cli.live_names import script

    click.echo(script(ctx.find_root().command, shell))
