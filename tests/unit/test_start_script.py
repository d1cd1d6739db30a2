"""The installed script's two forms."""

from pathlib import Path

import pytest

from sidecar.start_script import NAMES, direct

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", NAMES)
def test_the_direct_form_is_python_with_the_interpreter_in_its_first_line(name: str) -> None:
    text = direct((ROOT / "bin" / name).read_text(), "/venv/bin/python3", "/venv/lib/python3.11/site-packages")
    assert text is not None
    guard = "/venv/lib/python3.11/site-packages/sidecar/__pycache__/start"
    assert text.startswith(f"#!/venv/bin/python3 -ISXpycache_prefix={guard}\nimport gc\n")
    assert "packages = '/venv/lib/python3.11/site-packages'\n" in text
    assert "/bin/sh" not in text
    compile(text, name, "exec")


def test_a_direct_script_stays_as_it_is() -> None:
    once = direct((ROOT / "bin" / "sidecar").read_text(), "/venv/bin/python3", "/p")
    assert once is not None
    assert direct(once, "/venv/bin/python3", "/p") is None


@pytest.mark.parametrize("interpreter", ["/a b/bin/python3", "/" + "x" * 120, "/tab\t/python3"])
def test_a_path_that_the_kernel_could_not_read(interpreter: str) -> None:
    assert direct((ROOT / "bin" / "sidecar").read_text(), interpreter, "/p") is None


@pytest.mark.parametrize("text", ["", "#!/usr/bin/python3\nimport sidecar\n", "#!/bin/sh\necho mine\n"])
def test_scripts_of_others_are_left_alone(text: str) -> None:
    assert direct(text, "/venv/bin/python3", "/p") is None


@pytest.mark.parametrize(
    ("packages", "limit"), [("/p" * 120, 250), ("/p", 127 - 100), ("/a b/packages", 250), ("/p", 0)]
)
def test_without_room_for_the_guard_the_line_is_the_short_one(packages: str, limit: int) -> None:
    text = direct((ROOT / "bin" / "sidecar").read_text(), "/venv/bin/python3", packages, limit)
    assert text is not None
    assert text.startswith("#!/venv/bin/python3 -IS\n")
