"""The records of a look: as `dataclasses` would make them."""

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from sidecar.core import records


def classes(module: Any) -> tuple[Any, Any]:
    """The same two records, made by `module`."""

    @module.dataclass(slots=True)
    class Plain:
        """A record."""

        pid: int
        name: str = "x"
        found: dict[int, str] = module.field(default_factory=dict)

        @property
        def shown(self) -> str:
            return f"{self.name}[{self.pid}]"

    @module.dataclass(frozen=True, slots=True)
    class Frozen:
        pid: int
        facts: tuple[str, ...] = ()

    return Plain, Frozen


@pytest.mark.parametrize("module", [dataclasses, records])
def test_as_the_standard_library_makes_them(module: Any) -> None:
    plain, frozen = classes(module)
    one, two = plain(1), plain(pid=1, name="x")
    assert one == two
    assert one is not two
    assert one.found is not two.found
    one.found[1] = "a"
    assert one != two
    assert (plain(2, "y", {3: "z"}).shown, plain.__doc__, plain.__match_args__) == (
        "y[2]",
        "A record.",
        ("pid", "name", "found"),
    )
    assert repr(plain(1)).endswith("Plain(pid=1, name='x', found={})")
    assert repr(plain(1)) == f"{plain.__qualname__}(pid=1, name='x', found={{}})"
    assert one != frozen(1)
    with pytest.raises(AttributeError):
        one.other = 1
    with pytest.raises(TypeError):
        plain()
    with pytest.raises(TypeError):
        hash(one)
    fixed = frozen(1, ("a",))
    assert hash(fixed) == hash(frozen(1, ("a",)))
    assert {fixed: 1}[frozen(1, ("a",))] == 1
    with pytest.raises(AttributeError):
        fixed.pid = 2
    with pytest.raises(AttributeError):
        del fixed.pid
    assert module.replace(fixed, pid=5) == frozen(5, ("a",))
    assert fixed.pid == 1


def test_the_looks_load_nothing_that_they_can_do_without() -> None:
    """Each of these is a megabyte or more, in a process that waits beside a silent command."""
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "import sidecar.supervisor.pair, sidecar.core.published, sidecar.core.verdict_fields\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True)
    assert not {"dataclasses", "inspect", "re", "enum", "typing", "socket", "json"} & set(done.stdout.split())
