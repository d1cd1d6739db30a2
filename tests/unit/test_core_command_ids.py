"""Which command is meant by the beginning of an id."""

import pytest

from sidecar.core.command_ids import meant
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
