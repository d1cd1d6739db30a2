"""Benchmarks: ratios measured side by side in one run, never timed tests. See README.md in this folder."""
