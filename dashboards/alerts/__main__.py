"""Prints the alerting rules, or makes the files.

    python -m dashboards.alerts                                    the rules
    python -m dashboards.alerts --write [FOLDER]                   both files, here or in FOLDER
    python -m dashboards.alerts --set hung_age_s=600 --set 'selector=job="agents"'

Needs nothing but Python and this repository.
"""

import argparse
import dataclasses
import sys
from pathlib import Path

from dashboards.alerts.files import alertmanager_file, rules_file
from dashboards.alerts.parameters import Parameters
from dashboards.alerts.rules import alerts

HERE = Path(__file__).parent
RULES, ALERTMANAGER = "sidecar.rules.yml", "alertmanager.yml"
WEBHOOK = "http://127.0.0.1:9099/"


def parameters(settings: list[str]) -> Parameters:
    """The defaults, with `name=value` of each setting. ValueError says which one is wrong."""
    known = {field.name: getattr(Parameters(), field.name) for field in dataclasses.fields(Parameters)}
    changed = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name not in known or isinstance(known[name], tuple):
            names = ", ".join(name for name, value in known.items() if not isinstance(value, tuple))
            raise ValueError(f"{name}: unknown; one of {names}")
        try:
            changed[name] = type(known[name])(value)
        except ValueError:
            raise ValueError(f"{name}: {value!r} is no {type(known[name]).__name__}") from None
    return dataclasses.replace(Parameters(), **changed)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboards.alerts")
    defaults = ", ".join(
        f"{field.name}={getattr(Parameters(), field.name)}" for field in dataclasses.fields(Parameters)
    )
    parser.add_argument("--write", nargs="?", type=Path, const=HERE, metavar="FOLDER", help="make both files")
    parser.add_argument("--webhook", default=WEBHOOK, help="where Alertmanager sends to")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help=f"another value; {defaults.replace('%', '%%')}"
    )
    asked = parser.parse_args(words)
    try:
        chosen = parameters(asked.set)
    except ValueError as error:
        parser.error(str(error))
    rules = rules_file(alerts(chosen), chosen)
    if asked.write is None:
        print(rules, end="")
        return 0
    asked.write.mkdir(parents=True, exist_ok=True)
    (asked.write / RULES).write_text(rules, encoding="utf-8")
    (asked.write / ALERTMANAGER).write_text(alertmanager_file(chosen, asked.webhook), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
