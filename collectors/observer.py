"""A pair of looks, as `sidecar.core.verdict.judge` wants it: two about a second apart, states sampled between."""

from collectors.look import Looker
from sidecar.core.evidence import Context, Look
from sidecar.core.verdict import is_decided

SECONDS = 1.0
SAMPLES = 8


def observe(looker: Looker, *, seconds: float = SECONDS, samples: int = SAMPLES) -> tuple[Look, Look]:
    """Takes `seconds`, sleeping in between: for a thread, or a process, that has nothing else to do."""
    before = looker.look()
    states: dict[int, str] = {}
    for _ in range(samples):
        looker.kernel.pause(seconds / (samples + 1))
        looker.sample(before, states)
    looker.kernel.pause(seconds / (samples + 1))
    return before, finish(looker, before, states)


def finish(looker: Looker, before: Look, states: dict[int, str], context: Context | None = None) -> Look:
    """The second look of a pair. What each thread waits for is read only where the counters leave it open."""
    after = looker.count(before)
    after.states = states
    if not is_decided(before, after, context):
        looker.detail(after, before)
    return after
