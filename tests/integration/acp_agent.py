"""An agent for tests of the bridge: speaks as much ACP as they need, and runs commands by `sidecar-sh -c`.

A prompt's text is a JSON object: {"command": TEXT, "call": ID, "ask": true, "raw": BASE64}. `ask`: the client is asked
for leave first. `raw` is written to stdout as it is.
"""

import base64
import json
import subprocess
import sys
import threading


def say(message):
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def update(call, **keys):
    body = {"sessionUpdate": "tool_call_update", "toolCallId": call, **keys}
    say({"method": "session/update", "params": {"sessionId": "session_1", "update": body}})


def turn(request_id, plan):
    call = plan.get("call", "call_1")
    if "raw" in plan:
        sys.stdout.buffer.write(base64.b64decode(plan["raw"]))
        sys.stdout.buffer.flush()
    if "command" in plan:
        first = {"sessionUpdate": "tool_call", "toolCallId": call, "title": "Shell", "status": "pending"}
        say({"method": "session/update", "params": {"sessionId": "session_1", "update": first}})
        raw_input = {"command": plan["command"]}
        if plan.get("ask"):
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            question = {"sessionId": "session_1", "toolCall": {"toolCallId": call}, "options": options}
            update(call, kind="execute", rawInput=raw_input)
            say({"id": 99, "method": "session/request_permission", "params": question})
        else:
            update(call, status="in_progress", kind="execute", rawInput=raw_input)
        words = ["sidecar-sh", "-c", plan["command"]]
        output = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout.decode()
        content = [{"type": "content", "content": {"type": "text", "text": output}}]
        update(call, status="completed", content=content)
    say({"id": request_id, "result": {"stopReason": "end_turn"}})


for line in sys.stdin.buffer:
    try:
        message = json.loads(line)
    except ValueError:
        print("malformed", file=sys.stderr, flush=True)
        continue
    match message.get("method"):
        case "initialize":
            say({"id": message["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}})
        case "session/new":
            say({"id": message["id"], "result": {"sessionId": "session_1"}})
        case "session/prompt":
            plan = json.loads(message["params"]["prompt"][0]["text"])
            threading.Thread(target=turn, args=(message["id"], plan), daemon=True).start()
sys.exit(7)
