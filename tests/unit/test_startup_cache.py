"""The start-up cache holds the modules of the fast path, all of them, and of each all but what only readers want."""

import ast
import inspect
import os
from pathlib import Path
from types import CodeType

import pytest

import sidecar
from sidecar import startup_cache

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(sidecar.__file__)))
NAMES = (*startup_cache.BEFORE_SPAWN, *startup_cache.AFTER_SPAWN, *startup_cache.FOR_FILES)

SOURCE = '''
"""A module."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from no.such import module
else:
    found = "kept"
if TYPE_CHECKING:
    import nothing
LIMIT: int = 3
later: no.such.type


class Only:
    name: str


class Both:
    size: int = LIMIT
    name: str

    def sum(self, first: int, /, second: "int" = 2, *rest: int, third: int = 3, **more: int) -> "nothing.Sum":
        """Text."""
        total: int = first + second
        unset: int
        return total + third + self.size + sum(rest) + sum(more.values())
'''


def codes(code: CodeType) -> list[CodeType]:
    return [code, *(each for item in code.co_consts if isinstance(item, CodeType) for each in codes(item))]


def entry(path: Path) -> CodeType:
    (_, _, _, code), _ = startup_cache._entry(str(path.parent), path.stem)
    return code


def test_what_only_readers_want_goes_and_the_rest_works(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    namespace: dict[str, object] = {"__name__": "module"}
    exec(entry(path), namespace)
    assert namespace["found"] == "kept"
    assert namespace["LIMIT"] == 3
    assert "later" not in namespace
    both = namespace["Both"]
    assert isinstance(both, type)
    assert both().sum(1, rest := 10, 100, third=1000, fourth=10000) == 1 + rest + 100 + 1000 + 10000 + 3  # type: ignore[attr-defined]
    assert both().sum(1) == 1 + 2 + 3 + 3  # type: ignore[attr-defined]
    assert both.sum.__annotations__ == {}  # type: ignore[attr-defined]
    assert both.sum.__doc__ is None  # type: ignore[attr-defined]
    assert "__annotations__" not in {**namespace, **vars(both), **vars(namespace["Only"])}


@pytest.mark.parametrize("name", NAMES)
def test_each_module_is_whole(name: str) -> None:
    """No function is lost, and none has other parameters."""
    (_, path, _, code), _ = startup_cache._entry(ROOT, name)
    tree = ast.parse(Path(path).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    wanted = sorted(
        (node.name, len(node.args.posonlyargs) + len(node.args.args), len(node.args.kwonlyargs))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    )
    found = sorted(
        (each.co_name, each.co_argcount, each.co_kwonlyargcount)
        for each in codes(code)
        if each.co_flags & inspect.CO_NEWLOCALS and not each.co_name.startswith("<")  # a function, and no class
    )
    assert found == wanted
    assert not any("__annotations__" in each.co_names for each in codes(code))


def test_no_module_is_named_twice() -> None:
    assert len(set(NAMES)) == len(NAMES)
