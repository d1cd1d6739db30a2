"""Which command is meant by the beginning of an id."""

import pytest

from sidecar.core.command_ids import meant, trace_id_in, typed_id
from sidecar.core.errors import UsageError

ONE = "01890a5d-ac96-774b-bcce-b302099a8057"
TWO = "01890a5d-ac96-774b-bcce-b302099a8058"
KNOWN = {ONE: "make", TWO: "cc, ended", "01890A5D": "x", "abc": "short"}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (ONE, ONE),
        (ONE.upper(), ONE),
        (TWO[:36], TWO),
        ("01890a5d", "01890A5D"),  # another's beginning, and an id of its own
        ("abc", "abc"),
        (f"{TWO[:-1]}8~", TWO),  # as `sidecar top` cuts it
        ("ffff", None),
        ("ffff~", None),
        (f"{ONE}0", None),
    ],
)
def test_a_whole_id_wins_and_else_the_only_one(wanted: str, found: str | None) -> None:
    assert meant(wanted, KNOWN) == found


@pytest.mark.parametrize("wanted", ["01890a5d-ac96-774b-bcce-b302099a805", "01890a5d-", "0189"])
def test_more_than_one_is_refused(wanted: str) -> None:
    with pytest.raises(UsageError, match=rf"is the beginning of \d commands: {ONE} \(make\), {TWO} \(cc, ended\)"):
        meant(wanted, KNOWN)


def test_of_many_the_first_few_are_named() -> None:
    many = {f"0abc-{number:02}": "make\n" for number in range(9)}
    with pytest.raises(UsageError, match=r"of 9 commands: 0abc-00 \(make\\n\), .*0abc-04 \(make\\n\) and 4 more; give"):
        meant("0abc", many)


@pytest.mark.parametrize("wanted", ["", "0", "018", "ab"])
def test_too_little_says_nothing(wanted: str) -> None:
    with pytest.raises(UsageError, match="at least 4 characters"):
        meant(wanted, KNOWN)


@pytest.mark.parametrize("cut", ["01890a5d-ac9~", "01890a5d-ac9...", "01890a5d-ac9\u2026", "01890a5d-ac9"])
def test_what_a_view_has_cut_short_can_be_pasted(cut: str) -> None:
    assert typed_id(cut) == "01890a5d-ac9"


def test_a_trace_id_is_no_id_of_a_command() -> None:
    assert trace_id_in("4BF92F3577B34DA6A3CE929D0E0E4736") == "4bf92f3577b34da6a3ce929d0e0e4736"
    for other in (ONE, ONE[:32], "4bf92f3577b34da6a3ce929d0e0e473", "4bf92f3577b34da6a3ce929d0e0e4736a", "x" * 32, ""):
        assert trace_id_in(other) is None
