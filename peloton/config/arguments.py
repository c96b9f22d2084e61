"""Settings from the command line of a process.

Flags win over environment variables, those over YAML files, of which the last wins.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from peloton import __version__
from peloton.compiled import mode
from peloton.config.errors import ConfigError
from peloton.config.loading import environment, load
from peloton.config.settings import DaemonSettings, ProcessSettings
from peloton.config.sources import variable_targets

D = TypeVar("D", bound=ProcessSettings)


def parse_arguments(cls: type[D], program: str, argv: Sequence[str] | None = None) -> tuple[D, bool]:
    """Read settings from the command line of a process; return whether only to check them too.

    -c FILE (repeated), --check, --debug, a flag per environment variable. Raises ConfigError. --help and
    --version print, and end the process with 0.
    """
    given = vars(_parser(cls, program).parse_args(argv))
    names = [target.variable.name for target in variable_targets(cls)]
    flags = {name: value for name in names if (value := given[name]) is not None}
    settings = load(cls, given["config"], flags, environment(cls))
    if isinstance(settings, DaemonSettings):
        _refuse_exposure(settings)
    return settings, bool(given["check"])


def _refuse_exposure(settings: DaemonSettings) -> None:
    if settings.exposed and not settings.insecure:
        raise ConfigError(
            f"host: {settings.host!r} is beyond loopback, and auth.type is NOOP: whoever reaches the ports "
            "may run commands on every agent. Set auth.type to BASIC or OIDC; or, where nobody else reaches "
            "this network, insecure: true"
        )


def _parser(cls: type[ProcessSettings], program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        allow_abbrev=False,
        description="A process of the Peloton cluster scheduler.",
        epilog="Flags win over environment variables, those over files. docs/settings.md lists all settings.",
    )
    parser.add_argument("--version", action="version", version=f"{program} {__version__}, {mode()}")
    parser.add_argument(
        "-c",
        "--config",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="YAML file of settings; several are merged left to right",
    )
    parser.add_argument("--check", action="store_true", help="say whether the settings are right, and end")
    for target in variable_targets(cls):
        variable = target.variable
        help_text = f"sets {target.dotted}; environment {variable.name}"
        if variable.switch:
            parser.add_argument(
                variable.switch, action="store_const", const="true", dest=variable.name, help=help_text
            )
        else:
            parser.add_argument(variable.flag, dest=variable.name, metavar="VALUE", help=help_text)
    return parser
