"""`sidecar doctor`: looks at the whole chain, says how each part is and how to mend it. Changes nothing.

0    all is well
1    there is something to mend
125  a usage error
"""

import json
import os

import click

from sidecar.agents import check_agents, check_chain
from sidecar.agents.catalog import AGENTS
from sidecar.agents.checkup import NOTE, OK, PROBLEM, Check, ask
from sidecar.agents.places import Places

EXIT_TO_MEND = 1
_SIGNS = {OK: "ok      ", NOTE: "note    ", PROBLEM: "PROBLEM "}


@click.command("doctor", short_help="Check the whole chain, and say how to mend it.")
@click.argument("agents", metavar="[AGENT]...", nargs=-1, type=click.Choice(list(AGENTS)))
@click.option("--json", "as_json", is_flag=True, help="For programs: one object.")
def doctor(agents: tuple[str, ...], as_json: bool) -> int:
    """Check this installation, the daemon, the way out for telemetry, what can be seen of a command, and each agent.

    An AGENT that is named must be there and wrapped; where none is named, one of those found must be. It takes ten
    seconds at most. Exit status 0: all is well; 1: there is something to mend.
    """
    places = Places(os.environ, os.path.realpath(os.getcwd()))
    checks = ask([*check_chain.questions(places), *check_agents.questions(places, agents)])
    if not agents and not any(check.status == OK and check.name in AGENTS for check in checks):
        checks.append(Check("agents", PROBLEM, "no agent is wrapped", "`sidecar setup AGENT --apply`"))
    well = all(check.status != PROBLEM for check in checks)
    if as_json:
        click.echo(json.dumps({"ok": well, "checks": [check.as_record() for check in checks]}, indent=2))
    else:
        for check in checks:
            _show(check)
    return 0 if well else EXIT_TO_MEND


def _show(check: Check) -> None:
    click.echo(f"{_SIGNS[check.status]} {check.name}: {check.text}")
    if check.mend:
        click.echo(f"          -> {check.mend}")
