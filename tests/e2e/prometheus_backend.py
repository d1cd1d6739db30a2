"""Prometheus and Alertmanager, as Debian has them."""

import json
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends import Backend, free_port, get, tool

COLLECTOR = {"source_labels": ["__address__"], "target_label": "collector"}


class Prometheus(Backend):
    """Debian's Prometheus, which scrapes each of `targets` (job name -> host:port) once a second; one is a Collector
    where the job's name says so."""

    name = "prometheus"

    def __init__(
        self, folder: Path, targets: Mapping[str, str], rules: str = "", alertmanager: str | None = None
    ) -> None:
        super().__init__(folder)
        self.targets = targets
        self.url = f"http://127.0.0.1:{free_port()}"
        self.health = f"{self.url}/-/ready"
        config: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [
                # As docs/collector.md says.
                {"job_name": job, "honor_labels": True, "static_configs": [{"targets": [target]}]}
                | ({"relabel_configs": [COLLECTOR]} if "collector" in job else {})
                for job, target in targets.items()
            ],
        }
        if rules:
            (self.folder / "rules.yml").write_text(rules)
            config["rule_files"] = ["rules.yml"]
        if alertmanager:
            config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
        # JSON is YAML.
        (self.folder / "prometheus.yml").write_text(json.dumps(config))

    def words(self) -> list[str]:
        return [
            tool("prometheus"),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--enable-feature=exemplar-storage",
        ]

    def ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of each series that an instant query gives."""
        answer = json.loads(get(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]

    def values(self, query: str) -> list[float]:
        return [value for _, value in self.ask(query)]

    def exemplars(self, query: str) -> list[dict[str, str]]:
        """The labels of the exemplars of the last hour."""
        now_s = time.time()
        asked = urllib.parse.urlencode({"query": query, "start": now_s - 3600, "end": now_s + 60})
        found = json.loads(get(f"{self.url}/api/v1/query_exemplars?{asked}"))["data"]
        return [exemplar["labels"] for series in found for exemplar in series["exemplars"]]


class Alertmanager(Backend):
    """Debian's Alertmanager; alerts are read back through its API."""

    name = "alertmanager"

    def __init__(self, folder: Path, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder)
        self.address = f"127.0.0.1:{free_port()}"
        self.health = f"http://{self.address}/-/ready"
        config = config or {"route": {"receiver": "none", "group_wait": "0s"}, "receivers": [{"name": "none"}]}
        (self.folder / "alertmanager.yml").write_text(json.dumps(config))

    def words(self) -> list[str]:
        return [
            tool("prometheus-alertmanager"),
            f"--config.file={self.folder / 'alertmanager.yml'}",
            f"--storage.path={self.folder / 'data'}",
            f"--web.listen-address={self.address}",
            # No cluster: it would listen on all interfaces.
            "--cluster.listen-address=",
        ]

    def firing(self) -> list[dict[str, str]]:
        """The labels of the alerts that fire now."""
        alerts = json.loads(get(f"http://{self.address}/api/v2/alerts?active=true"))
        return [alert["labels"] for alert in alerts]

    def inhibited(self) -> set[tuple[str, str]]:
        """(name, instance) of the alerts that another one keeps back now."""
        alerts = json.loads(get(f"http://{self.address}/api/v2/alerts?inhibited=true"))
        return {
            (alert["labels"]["alertname"], alert["labels"].get("instance", ""))
            for alert in alerts
            if alert["status"]["inhibitedBy"]
        }
