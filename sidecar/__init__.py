"""Observability sidecar for the shell commands that coding agents run."""

__version__ = "0.1.0"
