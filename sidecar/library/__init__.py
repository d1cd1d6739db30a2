"""For authors of agents in Python: start a command under supervision, from synchronous code or from asyncio.

    from sidecar import run, arun, start, astart

    result = run("make test", timeout_s=600, on_progress=print)       # waits
    result = await arun(["pytest", "-q"], tool_call_id=call.id)       # the task's cancellation stops the command

    with start("make test") as command:                               # a handle: iterate, cancel, wait
        for progress in command:
            if progress.group == "may_be_hung":
                command.cancel()
        result = command.wait()

    async with astart("make test") as command:
        async for progress in command:
            ...

The command is supervised by a process of its own, as with `sidecar run`: the program that uses this keeps its signal
handlers, its children and its threads to itself. docs/library.md is the page for users.
"""

from sidecar.library.asynchronous import AsyncCommand, arun, astart
from sidecar.library.blocking import Command, run, start
from sidecar.library.options import Options
from sidecar.library.progress import Progress
from sidecar.library.result import Result

__all__ = ["AsyncCommand", "Command", "Options", "Progress", "Result", "arun", "astart", "run", "start"]
