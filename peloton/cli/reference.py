"""Generator of docs/cli.md from the commands: `python -m peloton.cli.reference > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from peloton.cli.app import GROUPS, cli
from peloton.cli.groups import VIEWS

_HEAD = """\
# The command line

`peloton [GLOBAL FLAGS] COMMAND ...`. Every command has `--help`, and takes `-j/--json`, `-o/--output` and
`-q/--query` also behind its name (only the long forms where it has an `-o` or `-q` of its own).
This page is made by `python -m peloton.cli.reference > docs/cli.md`.

- **Specs** are YAML; keys are matched without case and underscores. A refusal names the file, the line,
  the field's path, its value and what would be right. Examples: [examples](../examples).
- **Ranges** of instances are `from:to`, `to` being the first left out; `3` is `3:4`, `5:` goes to the end.
- **Durations** are `20s`, `5m`, `1m30s`, `500ms`. **Lists** are separated by commas. States have no case.
- **Pools** are given by their path, such as `/a/b`. **Jobs** are given by their name, alone or behind their
  pool's path (`web`, `/a/b/web`), by their id, a UUID, or by its first characters, 4 or more. Where a name is
  that of several jobs, these are listed, newest first, and nothing is done. **Pods** are given by their name,
  `JOB-INSTANCE`.
- **Output** (`-o`): `table`, `wide` (a table with more columns), `json`, `yaml`, or `name` (the names alone,
  one a line, for scripts: `peloton -o name job query --name web`). Without it, lists are tables and one
  object is YAML. With `json` (`-j`) and `yaml`, standard output holds one value and nothing else. Colours are
  for terminals only, and never where `NO_COLOR` is set. What takes over 2 s says so on a terminal.
- **Parts of the output** (`-q`, `--query`): an expression of [JMESPath](https://jmespath.org), as the command
  lines of AWS and Azure take it, chooses what is printed of the JSON: texts as they are, the elements of a
  list one a line, those of a list in a list with tabs between, the rest as JSON. With `-o json` or `-o yaml`
  what is chosen is printed so. Where nothing is found, nothing is printed. An example:
  `peloton job query --query 'results[].[name, runtime.state]'`.
- **Watching**: commands that only look take `-w/--watch`, and `--interval` (2 s where it is left out): what
  they show is drawn again until `q` is pressed; without a terminal it is printed again and again.
- **Exit codes**: 0 done; 1 refused, with a line on standard error that says why; 2 called wrongly; 3 a
  daemon, an agent or ZooKeeper could not be reached or did not answer in time; 4 the job that was waited for
  did not succeed (`job create --follow`); 130 interrupted. `task exec` has the exit code of its command.
- **Completion** of commands, flags, and the names of jobs, pools and hosts of the cluster: see `completion`.
"""
_CLUSTERS = """
## Which cluster

The first of these that says anything:

1. **Flags**: `-e` (a name), `-z` (ZooKeeper servers), or `-m`, `-v`, `-u` (addresses of daemons).
2. **The environment**: `CLUSTER_NAME`, `ZK_SERVERS`, or `JOBMGR_URL`, `RESMGR_URL`, `HOSTMGR_URL`. Beside
   `-m`, `-v` or `-u`, only the addresses of it count; beside `-e` or `-z`, none of it does.
3. **A minicluster on this machine**: the one whose folder `PELOTON_MINICLUSTER_DIR` names; else the one in
   `~/.peloton/minicluster`; else the only one that runs. A line on standard error says which is used, unless
   it was named, or is the only one and at the default ports. Where several run and none is in the usual
   folder, the command is refused.
4. `localhost:5392`, `localhost:5394` and `localhost:5391`.

A name, ZooKeeper servers and addresses do not mix: one source that gives more than one of the three is
refused. By a name or by ZooKeeper, the leaders are looked for below `--zkroot`, and followed.

`-e NAME` is looked up in `~/.peloton/clusters.json`, then in `/etc/peloton/clusters.json`. `zkURL` holds the
ZooKeeper servers, separated by commas, with a path behind the last one where everything lies below it:

<!-- spec: clusters -->
```json
{
  "clusters": [
    {"clusterName": "prod", "zkURL": "zk1:2181,zk2:2181,zk3:2181"},
    {"clusterName": "test", "zkURL": "zk.test:2181/test"}
  ]
}
```

Where one Peloton has several Mesos clusters, a host of a named one is `CLUSTER/HOSTNAME`. Commands that name
hosts call the host manager of their cluster, `host query` calls all. For the others `--mesosCluster NAME`
tells which one; without it they call that of the cluster without a name.

`-z` may be given more than once; `ZK_SERVERS` holds servers separated by commas, blanks or line ends. The
file of `--basicAuthConfig` holds `username: NAME` and `password: TEXT`, or `token: TEXT`, as YAML.
"""
OF_OTHERS = ("deploy", "minicluster", "simulate")
"""Commands of other packages, which are found by their entry points."""
_TAIL = """
## minicluster

A whole cluster on this machine: `peloton minicluster up`, `down`, `status`, `logs`, `start`, `stop`, `kill`,
`restart`; see `peloton minicluster COMMAND --help`. `up --storage cassandra --membership zookeeper` runs it
on a Cassandra and a ZooKeeper of its own, `=HOST:PORT,…` behind either on ones that run already; see
[operations.md](operations.md).

## simulate

`peloton simulate --trace FILE --cluster FILE` shows what a cluster would do with a workload: waits by pool
and class, use, fairness, preemption; see `peloton simulate --help` and [simulator.md](simulator.md).
"""


def reference() -> str:
    """Return the page, as Markdown."""
    root = click.Context(cli, info_name="peloton")
    parts = [_HEAD, "## Global flags\n", *_flags(cli, root), _CLUSTERS.rstrip()]
    members = {name: cli.get_command(root, name) for name in GROUPS if name not in OF_OTHERS}
    parts += ["\n## Beside the groups\n"]
    for name, command in members.items():
        if command is not None and not isinstance(command, click.Group):
            parts += _command(command, click.Context(command, root, name))
    for name, group in members.items():
        if isinstance(group, click.Group):
            parts += [f"\n## {name}\n\n{group.help}\n", *_commands(group, click.Context(group, root, name))]
    return "\n".join(parts) + "\n" + _TAIL


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
            continue
        yield from _command(command, inner)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    arguments = [one.make_metavar(context) for one in command.params if isinstance(one, click.Argument)]
    yield f"- **`{' '.join([context.command_path, *arguments])}`**: {' '.join(str(command.help).split())}"
    yield from (f"  {line}" for line in _flags(command, context))


def _flags(command: click.Command, context: click.Context) -> Iterator[str]:
    for option in command.params:
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        common = command is not cli and _is_common(command, option)
        if record is not None and not common:
            flags, text = record
            yield f"- `{flags}`: {' '.join(text.split())}"


def _is_common(command: click.Command, option: click.Parameter) -> bool:
    """Return whether an option is one of those that the head of the page describes."""
    flag = option.opts[-1]
    return flag in ("--json", "--output", "--query") or (flag == "--interval" and command.name in VIEWS)


if __name__ == "__main__":
    print(reference(), end="")
