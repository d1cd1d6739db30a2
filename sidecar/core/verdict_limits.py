"""For how long which verdict may hold: the rules of `--on-verdict`. Pure.

A rule is (verdict or group, age in ns, action), as `core.values.parse_verdict_limits` makes it. It is met when a
verdict that it names is published, the latest look has confirmed it, and it has held for the rule's age: the silence
as such is no reason, so that a slow query (`network_wait`) is never taken for a prompt or a hang that lasts as long.
Each rule is met once for one stretch of a verdict.
"""

from sidecar.core.receipt import MAX_EVIDENCE_CHARS
from sidecar.core.verdict_fields import safe_text
from sidecar.core.verdict_names import group_of

REPORT, CANCEL = "report", "cancel"
ACTIONS = (REPORT, CANCEL)

Rule = tuple[str, int, str]


class VerdictLimits:
    """The rules of one command. Times are monotonic nanoseconds; `since_ns` tells one stretch from the next."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._met: dict[Rule, int] = {}

    def met(self, verdict: str, since_ns: int, now_ns: int) -> list[Rule]:
        """The rules that a verdict which was just confirmed meets now; a stop is the last of them."""
        found = [rule for rule in self._open(verdict, since_ns) if now_ns - since_ns >= rule[1]]
        for rule in found:
            self._met[rule] = since_ns
        return sorted(found, key=lambda rule: rule[2] == CANCEL)

    def next_ns(self, verdict: str, since_ns: int) -> int | None:
        """When the next rule will be met, if the verdict goes on; None for never."""
        return min((since_ns + rule[1] for rule in self._open(verdict, since_ns)), default=None)

    def _open(self, verdict: str, since_ns: int) -> list[Rule]:
        names = (verdict, group_of(verdict))
        return [rule for rule in self._rules if rule[0] in names and self._met.get(rule) != since_ns]


def rule_text(rule: Rule) -> str:
    """As it is written: `awaiting_input:60s=cancel`."""
    from sidecar.core.duration import format_duration

    return f"{rule[0]}:{format_duration(rule[1])}={rule[2]}"


def words_of(rule: Rule, verdict: str, held_ns: int, evidence: tuple[str, ...]) -> str:
    """The evidence of a receipt: which verdict, for how long, by which rule, and its weightiest fact."""
    fact = f": {evidence[0]}" if evidence else ""
    return safe_text(f"{verdict} for {held_ns / 1e9:.0f} s ({rule_text(rule)}){fact}", MAX_EVIDENCE_CHARS)
