"""LogQL and TraceQL as trees, by the grammars of Grafana's query editors (grafana/, from npm)."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from backends import tool


class QueryRefusedError(Exception):
    """The query is not of its language. The message says where."""


class Node(NamedTuple):
    name: str
    text: str
    children: tuple["Node", ...]

    def all(self, name: str) -> Iterator["Node"]:
        """Every node of this name at or below this one, in the order of the text."""
        if self.name == name:
            yield self
        for child in self.children:
            yield from child.all(name)

    def child(self, *names: str) -> "Node | None":
        return next((child for child in self.children if child.name in names), None)


@cache
def tree(language: str, query: str) -> Node:
    """`language` is "logql" or "traceql"."""
    done = subprocess.run(
        [tool("grafana"), "trees"], input=json.dumps([[language, query]]), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (top,) = json.loads(done.stdout)
    return _node(top, query)


def _node(plain: list[Any], query: str) -> Node:
    name, start, end, children = plain
    if name == "⚠":
        raise QueryRefusedError(f"at {start}: {query[start:] or 'the end'!r} in {query}")
    # Positions are in UTF-16 there; all that is asked here is in the plane where both count alike.
    return Node(name, query[start:end], tuple(_node(child, query) for child in children))


_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}


def string(node: Node) -> str:
    """What a string stands for. The grammars let every escape through; Loki and Tempo read strings as Go does.

    Source: The Go Programming Language Specification, String literals. Escapes by number are not known here.
    """
    inner = node.text[1:-1]
    if node.text[0] == "`":
        if "`" in inner:
            raise QueryRefusedError(f"a ` within `...`: {node.text}")
        return inner

    def meant(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise QueryRefusedError(f"{found[0]!r} is no escape in Go: {node.text}")
        return _ESCAPES[found[1]]

    return re.sub(r"\\(.)", meant, inner, flags=re.DOTALL)
