"""The rules by name, each in one sentence: what a report of the kit says. Heartbeats are called beats here."""

from typing import Final

CONSUMER: Final = {
    "beat-is-no-end": "a beat has the status in_progress and ends no call; only completed, failed and cancelled do",
    "kind-is-not-required": "a beat has no kind, title, content or locations: what is absent is unchanged, no error",
    "title-is-kept": "a beat has no title: the one that is shown stays, and _meta.toolName is none",
    "output-is-kept": "a beat has no content: the output that is shown stays",
    "output-goes-on": "output after a beat is taken as before it",
    "end-is-taken": "the end of a call is taken after a beat as without one",
    "late-beat-is-dropped": "after completed, failed or cancelled a beat changes nothing",
    "unknown-call-is-no-error": "a beat for a call that is not known is no error: skipped, or a call that runs",
    "unknown-messages-are-skipped": "a message of a type that is not known is skipped, and no error",
    "unknown-keys-are-skipped": "keys that are not known are skipped, at every depth",
    "other-calls-are-untouched": "a beat says something of its own call only",
    "no-call-is-invented": "a beat makes no card of its own, whatever id it has",
    "progress-is-not-text": "a beat is shown beside the call, or not at all; it is no part of the conversation",
    "plain-protocol": "what is no beat is taken as the protocol says (or is what wraps the consumer wrong?)",
    "one-answer-a-line": "each line gets one line as its answer, a JSON object: what is shown now",
}

PRODUCER: Final = {
    "call-is-known": "a beat names a call that the agent has made before, never an id of its own",
    "not-after-the-end": "no beat follows the end of its call",
    "meta-only": "a beat has _meta and nothing else that a client would show or keep",
    "status-is-in_progress": "a beat has the status in_progress",
    "payload-to-the-letter": "the progress object has the keys of shell_progress, and no other",
    "seq-increases": "the sequence numbers of a command strictly increase",
    "nothing-is-lost": "what is no beat is passed on, whole and in order",
}

ALL: Final = {**CONSUMER, **PRODUCER}
