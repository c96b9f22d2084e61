"""How many objects an object holds, by itself and by what it holds."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType)
"""Those are of the program, whatever it holds."""


def reachable(root: object) -> int:
    """Count the objects that can be reached from `root`, the ones of the program's code left out."""
    seen, todo = {id(root)}, [root]
    while todo:
        for each in gc.get_referents(todo.pop()):
            if id(each) not in seen and not isinstance(each, _SHARED):
                seen.add(id(each))
                todo.append(each)
    return len(seen)
