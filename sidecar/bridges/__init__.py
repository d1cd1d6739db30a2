"""Bridges: between a client and its agent on stdio. Every byte passes as it is; beats are put between whole lines.

`flow` moves one direction's bytes, `news` listens to the daemon, `agent` is the agent's process, `loop` joins them.
What is added, and when, is decided in sidecar.gateways.
"""
