"""How texts read that reach users, collected from the code: messages, reasons, help, settings, pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("peloton", "jobmgr", "resmgr", "placement", "hostmgr", "archiver", "storage")
GENERATED = (ROOT / "peloton" / "api", ROOT / "peloton" / "private")
TEMPLATES = ROOT / "peloton" / "web" / "templates"

NUMBER = "\x00"
"""Stands for a placeholder whose value may be 1."""
WORDS = ("name", "verb", "agent", "amounts", "of", "tasks")
"""Names of placeholders that stand for words, not for numbers."""
FILTERS = ("plural", "amount", "part_of", "percent", "size", "duration")
"""Filters of templates that write a noun or a unit as it must be."""
NOUNS = (
    "instances|ports|hosts|tasks|pools|members|gangs|jobs|updates|runs|events|agents|secrets|labels|volumes|"
    "offers|pods|clusters|claims|rows|keys|records|reservations|checks|tries|users|services|failures|workflows"
)
UNITS = "s|ms|min|h|MB|GB|TB|KiB|MiB|GiB|bytes|%|cores?|cpus?|GPUs?|gpus?"
PARTICIPLES = "told|asked|counted|shown|read|refused|kept|left|taken|returned|sent|dropped|known|said|written"
RULES = {
    "a number with a noun: use plural()": re.compile(rf"(\x00|(?<![\d,.…-])\b1) ({NOUNS})\b"),
    "so many: say of what, or this number": re.compile(r"\b[Ss]o many\b"),
    "one of these: name them": re.compile(r"\b[Oo]ne of these\b(?! [a-z ]*:)"),
    "a sentence begins with its object": re.compile(
        rf"(?:^|[.;] )(?:What|Whom|Which) [^.;,?]* (?:is|are) (?:{PARTICIPLES})\b(?!\?)(?! by)"
    ),
    "an exponent": re.compile(r"\x01|\b\d+e[+-]?\d+\b"),
    "an amount with its unit: use peloton.model.amounts": re.compile(rf"[\x00\x01] ?(?:{UNITS})(?![\w/])"),
}
EXPONENT = "\x01"
"""Stands for a placeholder whose format writes large numbers with an exponent."""
WITH_UNITS = {
    "peloton/model/amounts.py": "the place where amounts are written",
    "peloton/recordio.py": "it stands below the model",
    "peloton/web/views/pools/reads.py": "a percentage as it was configured",
}
"""Files that write a unit by themselves, and why."""
EXCUSED = {"amounts": WITH_UNITS}


class Text(NamedTuple):
    """A text with its place."""

    file: str
    line: int
    text: str


def _placeholder(value: ast.FormattedValue) -> str:
    spec = "".join(
        ast.literal_eval(part)
        for part in getattr(value.format_spec, "values", ())
        if isinstance(part, ast.Constant)
    )
    if spec.endswith(("g", "e", "G", "E")):
        return EXPONENT
    name = ast.unparse(value.value)
    last = name.removesuffix(".lower()").rpartition(".")[2]
    return "5" if last.isupper() or last in WORDS or "plural(" in name else NUMBER


def _joined(node: ast.JoinedStr) -> str:
    return "".join(
        _placeholder(part) if isinstance(part, ast.FormattedValue) else str(ast.literal_eval(part))
        for part in node.values
    )


def _docstrings(tree: ast.AST, is_shown: bool) -> Iterator[ast.Constant]:
    """Yield texts that stand alone and are for readers of the code: not those of settings and commands."""
    for node in ast.walk(tree):
        for at, each in enumerate(
            getattr(node, "body", ()) if isinstance(getattr(node, "body", ()), list) else ()
        ):
            if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)):
                continue
            decorated = (
                at == 0 and bool(getattr(node, "decorator_list", ())) and not isinstance(node, ast.ClassDef)
            )
            field = at > 0 and isinstance(node, ast.ClassDef)
            if not (is_shown and (decorated or field)):
                yield each.value


def _logged(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in calls of a log."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
            yield from ast.walk(node)


def texts_of(source: str, file: str) -> Iterator[Text]:
    """Yield the texts of a module that may reach users."""
    tree = ast.parse(source)
    shown = file.endswith(("config.py", "settings.py")) or file.startswith(
        ("peloton/config/", "peloton/cli/commands")
    )
    skipped = {id(each) for each in _docstrings(tree, shown)} | {id(each) for each in _logged(tree)}
    inside = {
        id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            yield Text(file, node.lineno, _joined(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield Text(file, node.lineno, " ".join(node.value.split()))


def collected() -> list[Text]:
    """Return all texts of the program."""
    found: list[Text] = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not any(each in path.parents for each in GENERATED):
                found += texts_of(path.read_text(), path.relative_to(ROOT).as_posix())
    for path in sorted(TEMPLATES.glob("*.html")):
        found += texts_of_template(path.read_text(), path.relative_to(ROOT).as_posix())
    return found


def texts_of_template(source: str, file: str) -> Iterator[Text]:
    """Yield the lines that a template shows; what stands within a line, such as a `<b>`, is part of it."""
    shown = re.sub(r"<script.*?</script>|\{#.*?#\}", "", source, flags=re.S)
    for number, line in enumerate(shown.split("\n"), 1):
        filled = re.sub(r"\{\{(.*?)\}\}", lambda found: _filled(found[1]), line)
        parts = re.sub(r"\{%.*?%\}|<(?!/?(?:b|i|em|span|strong|code|time)\b)[^>]*>", "\n", filled)
        for text in filter(None, map(str.strip, re.sub(r"<[^>]*>", "", parts).split("\n"))):
            yield Text(file, number, text)


def _filled(expression: str) -> str:
    """Return what stands for an expression of a template: a filter that writes a noun or a unit is right."""
    by = re.search(r"\| *(\w+)(?:\([^|]*\))? *$", expression)
    return (
        "…"
        if '"' in expression
        or (by and by[1] in ("plural", "amount", "part_of", "percent", "size", "duration"))
        else NUMBER
    )


def _excused(rule: str) -> Mapping[str, str]:
    return next((files for word, files in EXCUSED.items() if word in rule), {})


def _wrong(each: Text) -> Iterator[str]:
    for rule, pattern in RULES.items():
        if each.file not in _excused(rule) and pattern.search(each.text):
            yield f"{each.file}:{each.line}: {rule}: {each.text[:120]!r}"


def test_texts_for_users_read_well() -> None:
    found = collected()
    assert len(found) > 5000
    assert [line for each in found for line in _wrong(each)] == []


@pytest.mark.parametrize(
    "source",
    (
        'raise Refused(f"{count} instances are left")',
        'text = "1 ports"',
        'click.option("--limit", help="Show so many.")',
        'click.option("--states", help="Jobs in one of these.")',
        'text = "What is wrong is told."',
        'text = f"needs {amount:g} MB"',
        'text = "more than 1e+06 bytes"',
        'text = f"waits {seconds:.1f} s"',
        'text = f"{used} of {total} MB"',
    ),
)
def test_a_planted_text_is_found(source: str) -> None:
    assert [line for each in texts_of(source, "planted.py") for line in _wrong(each)]


@pytest.mark.parametrize(
    "line",
    ("<p>{{ n }} hosts</p>", "<b>{{ found | number }}</b> jobs", "{{ used }} MB", "<td>{{ share }} %</td>"),
)
def test_a_planted_line_of_a_template_is_found(line: str) -> None:
    assert [wrong for each in texts_of_template(line, "planted.html") for wrong in _wrong(each)]


def test_lines_of_a_template_that_are_right_pass() -> None:
    line = '<p>{{ n | plural("host") }}, {{ used | amount("memory") }}</p><td>{{ n }}</td><td>hosts</td>'
    assert not [wrong for each in texts_of_template(line, "planted.html") for wrong in _wrong(each)]


@pytest.mark.parametrize(
    "source",
    (
        "text = f\"{plural(count, 'instance')} left\"",
        'text = f"at most {MOST} instances"',
        'text = "one of these words: a, b"',
        'log.info(f"{count} instances")',
        '"""Return so many."""',
        'text = "11 instances"',
    ),
)
def test_texts_that_are_right_pass(source: str) -> None:
    assert not [line for each in texts_of(source, "planted.py") for line in _wrong(each)]


@pytest.mark.parametrize(
    ("word", "file"), [(word, file) for word, files in EXCUSED.items() for file in sorted(files)]
)
def test_excused_files_need_it(word: str, file: str) -> None:
    (pattern,) = (pattern for rule, pattern in RULES.items() if word in rule)
    assert any(pattern.search(each.text) for each in texts_of((ROOT / file).read_text(), file))


SETTINGS = ROOT / "docs" / "settings.md"
COMMANDS = ROOT / "docs" / "cli.md"
DEPENDENT = re.compile(r"(?:It|Its|They|Their|Theirs|The same|Such|Instead|Likewise|So|These)\b")
"""How a text begins that needs another one beside it."""
UNIT = re.compile(r"\b(?:seconds?|minutes?|hours?|days?|bytes|fraction|part)\b", re.IGNORECASE)


def _settings() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the type and the description of each setting on the page, which is generated."""
    for line in SETTINGS.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("| "))]
        if line.startswith("| `") and len(cells) == 4 and not cells[1].startswith("`--"):
            yield cells[0], cells[1], cells[3]


def _option_texts() -> Iterator[tuple[str, str]]:
    for line in COMMANDS.read_text().splitlines():
        if found := re.match(r" *- `(-[^`]*)`: (.*)", line):
            yield found[1], found[2]


def test_help_texts_stand_alone() -> None:
    settings = [(name, text) for name, _, text in _settings()]
    assert len(settings) > 150 and len(list(_option_texts())) > 100
    assert [each for each in (*settings, *_option_texts()) if DEPENDENT.match(each[1]) or not each[1]] == []


def test_settings_that_are_no_whole_numbers_name_their_unit() -> None:
    numbers = [(name, text) for name, kind, text in _settings() if kind.startswith("number")]
    assert len(numbers) > 50
    assert [each for each in numbers if not UNIT.search(each[1])] == []


def test_durations_of_commands_say_what_they_are() -> None:
    texts = [text for option, text in _option_texts() if option.endswith("DURATION")]
    assert texts and all("default" in text or UNIT.search(text) for text in texts)
