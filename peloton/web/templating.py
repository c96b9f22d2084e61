"""The templates: jinja2, everything escaped, undefined names are errors."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from peloton import __version__
from peloton.web import formats
from peloton.web.naming import named

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
MOST_PIECES = 2000
"""Pieces of pages whose HTML is kept."""


class Templates:
    """Renders templates, and single blocks of them.

    Every template has the macros of `macros.html` as `ui`, those of `job_macros.html` as `jm`, and the
    filters of `peloton.web.formats`.
    """

    def __init__(self, cluster_name: str = "") -> None:
        """Name the cluster for people."""
        self._pieces: OrderedDict[tuple[str, Hashable], Markup] = OrderedDict()
        self.environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters.update(formats.FILTERS, digest=digest, named=named)
        self.environment.globals.update(
            cluster_name=cluster_name,
            version=__version__,
            static=static_url,
            state_of=formats.state_of,
            kinds=formats.KINDS,
            piece=self.piece,
        )

    def _template(self, name: str) -> Template:
        """Return a template. The macros, which take memory and time, are read with the first one."""
        known = self.environment.globals
        if "jm" not in known:
            known["ui"] = self.environment.get_template("macros.html").module
            known["jm"] = self.environment.get_template("job_macros.html").module
        return self.environment.get_template(name)

    def page(self, template: str, variables: Mapping[str, Any]) -> str:
        """Render a whole template."""
        return self._template(template).render(dict(variables))

    def block(self, template: str, name: str, variables: Mapping[str, Any]) -> str:
        """Render one block of a template."""
        found = self._template(template)
        context = found.new_context(dict(variables))
        return "".join(found.blocks[name](context))

    def piece(self, template: str, item: Hashable) -> Markup:
        """Render a template for an item, which it knows as `item`; equal items are rendered once."""
        key = (template, item)
        if key in self._pieces:
            self._pieces.move_to_end(key)
            return self._pieces[key]
        html = Markup(self.page(template, {"item": item}))  # escaped by the template
        self._pieces[key] = html
        if len(self._pieces) > MOST_PIECES:
            self._pieces.popitem(last=False)
        return html


def digest(text: str) -> str:
    """Return a short name of a text's content."""
    return hashlib.blake2b(text.encode(), digest_size=9).hexdigest()


_DIGESTS: dict[str, str] = {}


def static_url(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    if name not in _DIGESTS:
        content = (STATIC / name).read_bytes()
        _DIGESTS[name] = hashlib.blake2b(content, digest_size=6).hexdigest()
    return f"/static/{name}?v={_DIGESTS[name]}"
