"""JSONC is edited as text: what is not ours keeps every byte, and out again is as before."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.agents import jsonc
from sidecar.agents.jsonc import NotUnderstood

KEYS = ("env", "PREFIX")
NAMES = st.sampled_from(["env", "PREFIX", "a", "b c", 'q"uote', "ü", "//", "/*"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
BLANKS = st.sampled_from(
    ["", "", " ", "\n", "\n  ", "\r\n\t", " // a comment: {[,]}\n", '/* and, \n another: "} */', "\t"]
)


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An object as a person might have written it, and its value."""
    value = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    if draw(st.booleans()):
        value["env"] = draw(st.dictionaries(NAMES, SCALARS, max_size=3))
    elif not isinstance(value.get("env", {}), dict):
        del value["env"]

    def written(each: Any) -> str:
        blank = draw(BLANKS)
        if isinstance(each, dict):
            members = [f"{draw(BLANKS)}{json.dumps(name)}{draw(BLANKS)}:{written(one)}" for name, one in each.items()]
            return blank + "{" + ",".join(members) + trailing(members) + draw(BLANKS) + "}" + draw(BLANKS)
        if isinstance(each, list):
            items = [written(one) for one in each]
            return blank + "[" + ",".join(items) + trailing(items) + draw(BLANKS) + "]" + draw(BLANKS)
        return blank + json.dumps(each, ensure_ascii=draw(st.booleans())) + draw(BLANKS)

    def trailing(parts: list[str]) -> str:
        return "," if parts and draw(st.booleans()) else ""

    mark = "\ufeff" if draw(st.booleans()) else ""
    return mark + written(value), value


# A machine that does something else too is no fault of the test.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(texts())
def test_reads_what_a_person_writes(case: tuple[str, dict[str, Any]]) -> None:
    text, value = case
    assert jsonc.parse(text) == value


# A machine that does something else too is no fault of the test.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(texts())
def test_a_key_is_set_and_nothing_else_changes(case: tuple[str, dict[str, Any]]) -> None:
    text, value = case
    after = jsonc.with_key(text, KEYS, "/x/sidecar-sh")
    assert jsonc.parse(after) == {**value, "env": {**value.get("env", {}), "PREFIX": "/x/sidecar-sh"}}
    assert jsonc.with_key(after, KEYS, "/x/sidecar-sh") == after, "twice is once"
    kept = "".join(text.split()) if text.replace(" ", "").replace("\t", "").count("{}") else text
    assert is_subsequence(kept, after) or "PREFIX" in value.get("env", {}), "but for blanks in an object of nothing"


# A machine that does something else too is no fault of the test.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(texts())
def test_out_again_has_the_values_of_before_and_all_comments(case: tuple[str, dict[str, Any]]) -> None:
    text, value = case
    if "PREFIX" in value.get("env", {}):
        return
    after = jsonc.with_key(text, KEYS, "/x/sidecar-sh")
    back = jsonc.without_key(after, KEYS, empty=() if "env" in value else ("env",))
    assert jsonc.parse(back) == value
    assert is_subsequence("".join(text.split()), "".join(back.split())), "a comment is lost"


@given(st.text() | st.text(alphabet='{}[]":,/*\\\n 01truefalsn\ufeff', max_size=40))
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    for attempt in (jsonc.parse, lambda each: jsonc.with_key(each, KEYS, "x")):
        said = ""
        try:
            attempt(text)
        except NotUnderstood as error:
            said = str(error)
        assert "\n" not in said


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "env": {\n    "PREFIX": "x"\n  }\n}\n'),
        ("{}", '{\n  "env": {\n    "PREFIX": "x"\n  }\n}'),
        ('{"a": 1}\n', '{"env": {"PREFIX": "x"}, "a": 1}\n'),
        ('{\n\t"a": 1 // one\n}\n', '{\n\t"env": {\n\t\t"PREFIX": "x"\n\t},\n\t"a": 1 // one\n}\n'),
        ('{\n  "env": {\n    "A": "1",\n  }\n}', '{\n  "env": {\n    "PREFIX": "x",\n    "A": "1",\n  }\n}'),
        ('{\r\n  "env": {}\r\n}', '{\r\n  "env": {\r\n    "PREFIX": "x"\r\n  }\r\n}'),
        ('{"env": {"PREFIX": "old" /* mine */}}', '{"env": {"PREFIX": "x" /* mine */}}'),
    ],
)
def test_it_looks_as_a_person_would_have_written_it(before: str, after: str) -> None:
    assert jsonc.with_key(before, KEYS, "x") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"env": {"PREFIX": "x"}, "a": 1}', '{"a": 1}'),
        ('{ "env": {"PREFIX": "x"}, "a": 1 }', '{ "a": 1 }'),
        ('{"a": 1, "env": {"PREFIX": "x"}}', '{"a": 1}'),
        ('{"env":{"PREFIX":"x"},"a":1}', '{"a":1}'),
        ('{"env": {"PREFIX": "x"},  /* mine */ "a": 1}', '{/* mine */ "a": 1}'),
    ],
)
def test_out_of_a_line_it_takes_the_space_that_parted_it(before: str, after: str) -> None:
    assert jsonc.without_key(before, KEYS, empty=KEYS[:-1]) == after


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it ends too early"),
        ('{"a": 1} x', "line 1: there is more after the end"),
        ('{\n"a": 1\n"b": 2}', "line 3: a comma or } is expected"),
        ('{"a": 1, "a": 2}', "line 1: 'a' is there twice"),
        ('{"env": []}', "env is not an object"),
        ("[]", "the whole is not an object"),
        ("{'a': 1}", "line 1: not JSON"),
        ("[" * 200, "line 1: nested too deeply"),
    ],
)
def test_what_is_not_understood_says_where(text: str, why: str) -> None:
    with pytest.raises(NotUnderstood, match=f"^{why.replace('[', '.')}$"):
        jsonc.with_key(text, KEYS, "x")


def is_subsequence(part: str, whole: str) -> bool:
    letters = iter(whole)
    return all(letter in letters for letter in part)
