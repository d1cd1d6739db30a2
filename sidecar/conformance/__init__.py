"""The conformance kit: what a consumer of heartbeats must do with them, as data, and a check of who says it does.

`data/` has recorded sequences of messages, each line with what a consumer shows after it and the rule that says so.
Anyone may use them without our code; docs/gateways.md describes them. `judge` compares, `consumer` runs a consumer on
them, `stream` checks what a producer, a bridge or a gateway writes.
"""
