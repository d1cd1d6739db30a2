"""Redaction: the time for a text of eight times the length, over the time for the text, for adversarial units."""

import time

from benchmarks.installation import Installation

LIMIT = 24.0
SHORT_CHARS, LONG_CHARS = 12_500, 100_000
UNITS = [
    "a", "eyJ", ":@", "'", '"', "\\", "$'", "`", " ", "\n", "=", "@", "://", "http://a:b", "://x:y/", "token=",
    "token='", 'token="', 'token=\\"', "token=$(", "auth=", "token:", "?key=", "&key=a", "-----BEGIN X-----",
    "-----BEGIN X-----a-----END ", "sk-", "sk-sk", "ghp_", "github_pat_", "AKIA", "xoxb-", "Authorization:",
    "Authorization: Bearer ", "x-", "a-", "cookie=", "login a password ", "password '", "bearer ", "mysql -p",
    "a='", "-p ", "--password ", "sh -c '", "sh -c ", "(", "<", "A1", "_", ".", "é", "bA", "Bearer a",
    "<a>", "<token>", "</", "auth=('", "echo a|", "aB3", "aB3=", "<<< ", "<<<a ", "sudo -S <<< ", "(a", "tokens=(",
    "set password a=", 'assword "send', "assword send 'a", "-u a -p ", "--arg a ", "[token]=", "token+=", "login a\\n",
    ":pserver:a:", "password: 'x'", '"Authorization:"', "echo a|passwd ", "http-basic. ",
]  # fmt: skip


def measure(_: Installation) -> dict[str, float | str]:
    """The worst growth over all units; 8 is linear, 64 quadratic. Below 10 ms only the clock would be measured."""
    worst, unit_of_worst = 0.0, ""
    for unit in UNITS:
        short_s, long_s = _fastest_s(unit, SHORT_CHARS), _fastest_s(unit, LONG_CHARS)
        growth = long_s / max(short_s, 1e-4) if long_s > 0.01 else 0.0
        if growth > worst:
            worst, unit_of_worst = growth, unit
    return {
        "name": "redaction",
        "what": "time for 100,000 adversarial characters / time for 12,500",
        "ratio": round(worst, 1),
        "limit": f"<= {LIMIT:g}",
        "ok": worst <= LIMIT,
        "detail": f"worst of {len(UNITS)} units: {unit_of_worst!r}",
    }


def _fastest_s(unit: str, size: int) -> float:
    from sidecar.core.redaction import redact

    text = (unit * (size // len(unit) + 1))[:size]
    best_s = float("inf")
    for _ in range(3):
        started_s = time.process_time()
        redact(["sh", "-c", text])
        best_s = min(best_s, time.process_time() - started_s)
    return best_s
