"""The dashboards as the text of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.grafana.fleet import fleet
from dashboards.grafana.session import session

if TYPE_CHECKING:
    from dashboards.grafana.sources import Traces

HERE = Path(__file__).parent


def texts(traces: Traces = "jaeger") -> dict[str, str]:
    """The JSON of each file, by its name; the same bytes whenever it is made."""
    made = {"sidecar.json": fleet(traces), "session.json": session(traces)}
    return {name: json.dumps(each, cls=JSONEncoder, indent=2, sort_keys=True) + "\n" for name, each in made.items()}


def panels_of(page: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels and rows of a page's JSON in their order, those of closed rows among them."""
    return [each for panel in page["panels"] for each in (panel, *panel.get("panels", ()))]
