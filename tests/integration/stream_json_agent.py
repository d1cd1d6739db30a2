"""An agent for tests of the bridge: stream-json of Qwen Code or Claude Code; runs commands by `sidecar-sh`.

Each line of stdin is a plan, a JSON object: {"command": TEXT, "call": ID, "ask": true, "late": SECONDS, "raw": BASE64}.
`ask`: the client is asked for leave first. `late`: the result of the call is told so long after the command's end.
`raw` is written to stdout as it is. Arguments: the dialect, and the agent's own.
"""

import base64
import json
import subprocess
import sys
import time

QWEN = sys.argv[1] == "qwen"
TOOL = "run_shell_command" if QWEN else "Bash"
# Versions from before they beat by themselves.
VERSION = {"qwen_code_version": "0.20.0"} if QWEN else {"claude_code_version": "1.0.0"}


def say(kind, **keys):
    message = {"type": kind, "session_id": "session_1", "parent_tool_use_id": None, **keys}
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def run(plan):
    call, text = plan.get("call", "call_1"), plan["command"]
    use = {"type": "tool_use", "id": call, "name": TOOL, "input": {"command": text}}
    if "--include-partial-messages" in sys.argv:
        start = {"type": "content_block_start", "index": 0, "content_block": {**use, "input": {}}}
        say("stream_event", event=start)
    say("assistant", message={"role": "assistant", "content": [use]})
    if plan.get("ask"):
        request = {"subtype": "can_use_tool", "tool_name": TOOL, "tool_use_id": call, "input": use["input"]}
        say("control_request", request_id="ask_1", request=request)
    done = subprocess.run(["sidecar-sh", "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    time.sleep(plan.get("late", 0))
    result = {"type": "tool_result", "tool_use_id": call, "content": done.stdout.decode(), "is_error": False}
    say("user", message={"role": "user", "content": [result]})


say("system", subtype="init", tools=[TOOL], **VERSION)
for line in sys.stdin.buffer:
    try:
        plan = json.loads(line)
    except ValueError:
        print("malformed", file=sys.stderr, flush=True)
        continue
    if "raw" in plan:
        sys.stdout.buffer.write(base64.b64decode(plan["raw"]))
        sys.stdout.buffer.flush()
    if "command" in plan:
        run(plan)
    if plan.get("type") != "control_response":
        say("result", subtype="success", is_error=False)
sys.exit(7)
