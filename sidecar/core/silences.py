"""The silences of a command, and what was thought of each, from its heartbeats and verdicts. Pure."""

from typing import Any, Final

from sidecar.core.command import Command

_SAME_SILENCE_MS: Final = 1000
"""Two beats whose silences begin so near to each other tell of one: ages are rounded, and clocks are read twice."""


def silences_of(command: Command) -> list[list[Any]]:
    """[[from_ms, to_ms, [[at_ms, verdict], ...]], ...]: those that were long enough for a heartbeat or a verdict.

    A silence ends when output came again. Where that was not told, as to a daemon that was not there, it ends with its
    last beat. So does the last one of a command that runs; whether it goes on, its counts say.
    """
    silences: list[list[Any]] = []
    for beat in command.beats.kept:
        from_ms = 0 if beat.last_output_age_ms is None else max(0, beat.elapsed_ms - beat.last_output_age_ms)
        # A verdict between heartbeats may not know how old the output is: it is of the silence that goes on.
        unknown = beat.last_output_age_ms is None and not beat.is_heartbeat
        if not silences or (not unknown and from_ms > silences[-1][0] + _SAME_SILENCE_MS):
            silences.append([from_ms, beat.elapsed_ms, []])
        silence = silences[-1]
        silence[1] = beat.elapsed_ms
        if beat.verdict is not None and (not silence[2] or silence[2][-1][1] != beat.verdict):
            silence[2].append([beat.elapsed_ms, beat.verdict])
    if silences and command.settled is not None and "lastOutputAgeMs" in command.settled:
        elapsed_ms, age_ms = command.settled["elapsedMs"], command.settled["lastOutputAgeMs"]
        if elapsed_ms - age_ms <= silences[-1][0] + _SAME_SILENCE_MS:
            silences[-1][1] = elapsed_ms  # it was silent to its end
    elif silences and command.settled is not None and not command.has_output:
        silences[-1][1] = command.settled["elapsedMs"]
    for silence, later in zip(silences, [*silences[1:], None], strict=False):
        resumed_ms = next((each for each in command.resumed_ms if each > silence[1]), None)
        if resumed_ms is not None and (later is None or resumed_ms <= later[0] + _SAME_SILENCE_MS):
            silence[1] = resumed_ms
    return silences
