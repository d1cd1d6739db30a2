"""Two Grafana dashboards, made by `python -m dashboards.grafana --write`; docs/dashboards.md tells what they answer."""
