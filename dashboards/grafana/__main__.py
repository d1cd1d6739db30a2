"""python -m dashboards.grafana [--traces jaeger|tempo] [--write [FOLDER]]

Prints the dashboards as one JSON object by file name, or writes each into FOLDER, which is this one unless given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from dashboards.grafana.files import HERE, texts


@click.command(help=__doc__)
@click.option("--traces", type=click.Choice(["jaeger", "tempo"]), default="jaeger", help="The data source of traces.")
@click.option("--write", is_flag=True, help="Write the files.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=HERE)
def main(traces: str, write: bool, folder: Path) -> None:
    made = texts("tempo" if traces == "tempo" else "jaeger")
    if not write:
        click.echo(json.dumps({name: json.loads(text) for name, text in made.items()}, indent=2))
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
        click.echo(folder / name)


if __name__ == "__main__":
    sys.exit(main())
