"""The alerts, from one source: `python -m dashboards.alerts --write` makes the files beside this one."""
