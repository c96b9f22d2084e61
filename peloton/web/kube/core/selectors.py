"""Label selectors and field selectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from peloton.web.kube.core.refusals import Refusal

Matches = Callable[[Mapping[str, Any]], bool]
_KEY = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s+\(([^()]*)\)", re.ASCII)
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)", re.ASCII)
_EXISTS = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)
MOST_CHARACTERS, MOST_TERMS = 16_384, 100
"""Of a selector: it is applied to each object of a collection."""
_FIELD = re.compile(r"([A-Za-z][A-Za-z.]*)(==|=|!=)([^=]*)", re.ASCII)
FIELDS: Mapping[str, tuple[str, ...]] = {
    "pods": ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "status.phase"),
    "events": (
        "involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.fieldPath", "involvedObject.resourceVersion",
        "reason", "type", "source", "reportingComponent",
    ),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "jobs": ("status.successful",),
}  # fmt: skip
"""Fields besides the name and the namespace, by plural."""


def labels_match(selector: str) -> Matches:
    """Return what tells whether an object has labels as selected. Raises Refusal for a bad selector."""
    parts = [part.strip() for part in _parts(selector[: MOST_CHARACTERS + 1]) if part.strip()]
    _check_size("labelSelector", selector, parts)
    terms = [_label_term(part) for part in parts]

    def matches(found: Mapping[str, Any]) -> bool:
        labels = found["metadata"].get("labels") or {}
        return all(term(labels) for term in terms)

    return matches


def _parts(selector: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    found, inside = [""], False
    for piece in re.split(r"([,()])", selector):
        if piece == "," and not inside:
            found.append("")
            continue
        inside = piece == "(" or (inside and piece != ")")
        found[-1] += piece
    return found


def _check_size(parameter: str, selector: str, terms: list[str]) -> None:
    if len(selector) > MOST_CHARACTERS or len(terms) > MOST_TERMS:
        text = f"{MOST_CHARACTERS:,} characters and {MOST_TERMS} terms"
        raise Refusal(400, f"{parameter}: a selector has at most {text}")


def _label_term(text: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(text):
        key, within = found[1], {value.strip() for value in found[3].split(",")}
        if found[2] == "in":
            return lambda labels: key in labels and labels[key] in within
        return lambda labels: labels.get(key) not in within
    if found := _EQUAL.fullmatch(text):
        name, value = found[1], found[3]
        if found[2] == "!=":
            return lambda labels: labels.get(name) != value
        return lambda labels: labels.get(name) == value
    if found := _EXISTS.fullmatch(text):
        wanted, present = found[2], not found[1]
        return lambda labels: (wanted in labels) == present
    raise Refusal(400, f"labelSelector: {text!r} is no selector of labels")


def fields_match(selector: str, plural: str) -> Matches:
    """Return what tells whether an object has fields as selected. Raises Refusal for unknown fields."""
    parts = [part for part in selector.split(",") if part]
    _check_size("fieldSelector", selector, parts)
    terms = [_field_term(part, plural) for part in parts]
    return lambda found: all(term(found) for term in terms)


def selected(selector: str, field: str) -> str:
    """Return the value that a field selector demands of a field; empty where it demands none."""
    for part in selector.split(","):
        found = _FIELD.fullmatch(part)
        if found and found[1] == field and found[2] != "!=":
            return found[3]
    return ""


def _field_term(text: str, plural: str) -> Matches:
    found = _FIELD.fullmatch(text)
    if found is None:
        raise Refusal(400, f"fieldSelector: {text!r} is no selector of fields")
    path, equal, value = found[1], found[2] != "!=", found[3]
    known = ("metadata.name", "metadata.namespace", *FIELDS.get(plural, ()))
    if path not in known:
        text = f"field label not supported: {path}; {plural} have {', '.join(known)}"
        raise Refusal(400, text)
    return lambda each: (_text(each, path) == value) == equal


def _text(found: Mapping[str, Any], path: str) -> str:
    value: Any = found
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
