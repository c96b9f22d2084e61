"""The text of a job's pod template: YAML or JSON of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from peloton.errors import InvalidArgument
from peloton.model.amounts import byte_size
from peloton.model.pod_template import check_template

MAX_TEMPLATE_CHARACTERS = 32 * 1024
_KNOWN = 64
"""Texts whose trees are kept: all tasks of a job have one."""
_EXPECTED = "a pod of Kubernetes, as YAML or JSON"
_PLAIN = (str, int, float, bool, type(None))


class _Loader(yaml.SafeLoader):
    """YAML without aliases, by which a short text may be a huge tree."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node. Raises ComposerError for an alias."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not taken", mark)
        return super().compose_node(parent, index)


@lru_cache(maxsize=_KNOWN)
def pod_template(text: str, where: str = "podTemplate") -> Mapping[str, Any]:
    """Return the tree of a template; an empty text is an empty one. It is shared: do not change it.

    Raises InvalidArgument for what is none, or says what a template cannot.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        most = byte_size(MAX_TEMPLATE_CHARACTERS)
        raise InvalidArgument(where, byte_size(len(text)), f"{most} at most")
    try:
        tree = yaml.load(text, _Loader)
    except RecursionError:
        raise InvalidArgument(where, "a tree that is very deep", _EXPECTED) from None
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidArgument(where, " ".join(str(error).split()), _EXPECTED) from None
    _refuse_others(tree, where)
    check_template(tree, where)
    return tree  # type: ignore[no-any-return]


def _refuse_others(value: object, where: str) -> None:
    """Refuse what JSON does not have, such as dates."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if not isinstance(name, str):
                raise InvalidArgument(where, name, "a name, in quotes")
            _refuse_others(each, f"{where}.{name}")
    elif isinstance(value, list):
        for place, each in enumerate(value):
            _refuse_others(each, f"{where}[{place}]")
    elif not isinstance(value, _PLAIN):
        raise InvalidArgument(where, value, "a text, a number, true or false")
