"""Make v1.json and v2.json beside this file from the official schemas: `prune.py FOLDER`; see README.md."""

import json
import sys
from pathlib import Path
from typing import Any

ROOTS = {"v1": "SessionNotification", "v2": "UpdateSessionNotification"}


def pruned(schema: dict[str, Any], root: str) -> dict[str, Any]:
    """What `root` reaches, with `root` as the schema's own type."""
    kept: dict[str, Any] = {}
    wanted = [root]
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept[name] = _without_descriptions(schema["$defs"][name], wanted)
    return {"$schema": schema["$schema"], "$ref": f"#/$defs/{root}", "$defs": dict(sorted(kept.items()))}


def _without_descriptions(node: Any, references: list[str]) -> Any:
    if isinstance(node, list):
        return [_without_descriptions(item, references) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        references.append(node["$ref"].rpartition("/")[2])
    return {
        key: _without_descriptions(value, references)
        for key, value in node.items()
        if not (key == "description" and isinstance(value, str))
    }


if __name__ == "__main__":
    for version, root in ROOTS.items():
        schema = json.loads((Path(sys.argv[1]) / version / "schema.json").read_text())
        text = json.dumps(pruned(schema, root), separators=(",", ":"))
        (Path(__file__).parent / f"{version}.json").write_text(text + "\n")
