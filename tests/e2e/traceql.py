"""TraceQL over the spans of a trace: `{ scope.attribute = "value" && ... }`, and nothing else of the language.

Tempo itself is not run; see logql.py, which says how far such answers go.
"""

from collections.abc import Iterable

from jaeger_backend import JaegerSpan
from query_trees import Node, string, tree


def spans(query: str, among: Iterable[JaegerSpan]) -> list[JaegerSpan]:
    """Those of `among` that it selects: `resource.` asks for an attribute of the process, `span.` for the span's."""
    (selector,) = tree("traceql", query).all("SpansetFilter")
    wanted = list(_equalities(selector.children[0]))
    return [span for span in among if all(_has(span, field, value) for field, value in wanted)]


def _equalities(expression: Node) -> Iterable[tuple[str, str]]:
    names = [child.name for child in expression.children]
    if names == ["FieldExpression", "And", "FieldExpression"]:
        yield from _equalities(expression.children[0])
        yield from _equalities(expression.children[2])
        return
    assert names == ["FieldExpression", "FieldOp", "FieldExpression"], f"not known here: {expression.text}"
    field, operator, value = expression.children
    assert operator.text == "=", f"not known here: {expression.text}"
    yield field.text, string(next(value.all("String")))


def _has(span: JaegerSpan, field: str, value: str) -> bool:
    scope, _, name = field.partition(".")
    return {"resource": span.process, "span": span.tags}[scope].get(name) == value
