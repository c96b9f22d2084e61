"""A contract of import-linter: some packages import only what is on a list.

A new dependency is refused until somebody adds it, where a list of forbidden modules would let it in.
"""

from __future__ import annotations

import sys

from grimp import ImportGraph
from importlinter.application import output
from importlinter.domain import fields
from importlinter.domain.contract import Contract, ContractCheck

IMPURE = frozenset({"asyncio", "logging", "random", "socket", "subprocess", "threading", "time", "uuid"})
"""Parts of the standard library that read clocks, draw numbers or do I/O."""
PURE = frozenset(sys.stdlib_module_names) - IMPURE


class WhitelistContract(Contract):
    """Allow `source_modules` direct imports of themselves, `allowed_modules` and pure standard modules."""

    type_name = "whitelist"

    source_modules = fields.SetField(subfield=fields.StringField())
    allowed_modules = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Compare each direct import with the list."""
        allowed = set(self.allowed_modules)  # type: ignore[call-overload]
        found: list[str] = []
        for source in sorted(self.source_modules):  # type: ignore[call-overload]
            for module in sorted({source} | graph.find_descendants(source)):
                for imported in sorted(graph.find_modules_directly_imported_by(module)):
                    if not _within(imported, {source} | allowed) and imported.partition(".")[0] not in PURE:
                        found.append(f"{module} imports {imported}")
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each import that is not on the list."""
        for line in check.metadata["found"]:
            output.print_error(line, bold=False)
        output.new_line()


def _within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
