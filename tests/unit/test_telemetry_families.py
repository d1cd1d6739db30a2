"""Program names become a bounded label."""

import pytest

from sidecar.telemetry.families import DEFAULT_FAMILIES, OTHER, Families


@pytest.mark.parametrize(
    ("program", "family"),
    [
        ("pytest", "pytest"),
        ("/usr/local/bin/pytest", "pytest"),
        ("python3.12", "python"),
        ("python3", "python"),
        ("gcc-13", "gcc"),
        ("sqlite3", "sqlite3"),
        ("my-deploy-script-for-customer-17", OTHER),
        ("", OTHER),
        ("other", OTHER),
    ],
)
def test_family(program: str, family: str) -> None:
    assert Families().of(program) == family


def test_every_label_is_known_beforehand() -> None:
    families = Families(["b", "a", "other", "a"])
    assert families.all == ("a", "b", OTHER)
    assert len(set(DEFAULT_FAMILIES)) == len(DEFAULT_FAMILIES)
    assert len(Families().all) < 100
