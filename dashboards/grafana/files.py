"""The dashboards as the text of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

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
