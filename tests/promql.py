"""Metric names and labels of PromQL queries, as dashboards and alert rules have them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

ROOT = Path(__file__).resolve().parents[1]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
SCRAPED = {"job", "instance", "mesos_cluster"}
"""Labels that Prometheus adds, as deploy/prometheus/prometheus.yml says."""
OF_PROMETHEUS = {"up"}
"""Metrics that Prometheus makes."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and where it stands."""

    where: str
    text: str

    def selectors(self) -> list[tuple[str, set[str]]]:
        """The metrics that it selects, each with the labels that are matched."""
        found: list[tuple[str, set[str]]] = []

        def visit(expression: Any) -> None:
            if isinstance(expression, promql_parser.VectorSelector) and expression.name not in OF_PROMETHEUS:
                labels = {matcher.name for matcher in expression.matchers.matchers}
                found.append((str(expression.name), labels))

        promql_parser.walk(self._parsed(), visit)
        return found

    def groupings(self) -> list[tuple[set[str], list[str]]]:
        """The labels of each `by`, with the metrics below it."""
        found: list[tuple[set[str], list[str]]] = []

        def visit(expression: Any) -> None:
            if isinstance(expression, promql_parser.AggregateExpr) and expression.modifier is not None:
                below = [name for name, _ in Query(self.where, expression.prettify()).selectors()]
                found.append((set(expression.modifier.labels), below))

        promql_parser.walk(self._parsed(), visit)
        return found

    def _parsed(self) -> Any:
        text = self.text.replace("$__rate_interval", "5m")
        try:
            return promql_parser.parse(re.sub(r"\$\{?\w+\}?", "x", text))
        except ValueError as error:
            raise AssertionError(f"{self.where}: {self.text}: {error}") from None


def check(query: Query, labels: Mapping[str, set[str]], unsampled: bool = False) -> None:
    """Compare a query with the labels of each metric; `unsampled`: without labels they are not known."""
    for name, matched in query.selectors():
        assert name in labels, f"{query.where}: there is no metric {name}"
        if unsampled and not labels[name]:
            continue
        unknown = matched - labels[name] - SCRAPED
        assert not unknown, f"{query.where}: {name} has no label {unknown}, only {labels[name]}"
    for grouped, below in query.groupings():
        if unsampled and not all(labels[name] for name in below):
            continue
        known = SCRAPED.union(*(labels[name] for name in below if name in labels))
        assert grouped <= known, f"{query.where}: no label {grouped - known} to group by"


def rules() -> list[Any]:
    """The alert rules."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def queries() -> Iterator[Query]:
    """The queries of all dashboards and alert rules."""
    for rule in rules():
        yield Query(rule["alert"], rule["expr"])
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                yield Query(f"{path.name}: {panel['title']}", target["expr"])
        for variable in dashboard["templating"]["list"]:
            if found := re.fullmatch(r"label_values\((\w+), (\w+)\)", variable.get("definition", "")):
                yield Query(f"{path.name}: ${variable['name']}", f'{found[1]}{{{found[2]}=""}}')
