"""What may be hung: by the group of the verdict, and by how long it has held."""

import pytest

from sidecar.core.suspicion import may_be_hung
from sidecar.core.verdict_names import ALL, GROUPS


@pytest.mark.parametrize("verdict", [*ALL, "brand_new", None])
def test_by_group_and_age(verdict: str | None) -> None:
    now, later = verdict in GROUPS["may_be_hung"], verdict in GROUPS["may_be_hung"] + GROUPS["needs_someone"]
    assert may_be_hung(verdict, 0) is may_be_hung(verdict, 59_999) is now
    assert may_be_hung(verdict, 60_000) is may_be_hung(verdict, 10**9) is later
    assert may_be_hung(verdict, 500, budget_ms=500) is later
