"""What may be hung: by the group of the verdict, and by how long it has held."""

import pytest

from sidecar.core.suspicion import may_be_hung
from sidecar.core.verdict_names import GROUPS


@pytest.mark.parametrize("group", GROUPS)
def test_by_group_and_age(group: str) -> None:
    now, later = group == "may_be_hung", group in ("may_be_hung", "needs_someone")
    assert may_be_hung(group, 0) is may_be_hung(group, 59_999) is now
    assert may_be_hung(group, 60_000) is may_be_hung(group, 10**9) is later
    assert may_be_hung(group, 500, budget_ms=500) is later
