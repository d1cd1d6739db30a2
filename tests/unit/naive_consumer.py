"""Consumers that are wrong on purpose, each in one way: `naive_consumer.py FAULT`. Without a fault it is right."""

import json
import sys

FAULT = sys.argv[1]
ENDED = ("completed", "failed", "cancelled")
calls = {}
text = ""


def take_acp(update):
    global text
    call_id = update["toolCallId"]
    beat = "sidecar" in update.get("_meta", {})
    if beat and FAULT == "kind required":
        update["kind"]
    if beat and FAULT == "start required":
        calls[call_id]
    if beat and FAULT == "keys known" and "later" in update["_meta"]:
        sys.exit("unknown key")
    if beat and call_id not in calls and FAULT != "start makes a card":
        return
    call = calls.setdefault(call_id, {"status": "pending"})
    if call["status"] in ENDED and FAULT != "late beat revives":
        return
    if FAULT == "any update ends" and update["sessionUpdate"] == "tool_call_update":
        call["status"] = "completed"
    else:
        call["status"] = update.get("status", call["status"])
    if beat and FAULT == "start makes a card" and len(calls) == 1 and "title" not in call:
        call["status"] = "completed"
    if beat and FAULT == "end after a beat is lost":
        call["deaf"] = True
    if "deaf" in call:
        call["status"] = "in_progress"
    if "title" in update:
        call["title"] = update["title"]
    elif beat and FAULT == "title overwritten":
        call["title"] = update["_meta"]["toolName"]
    if beat and FAULT == "title dropped":
        call.pop("title", None)
    if beat and FAULT == "output dropped":
        call.pop("output", None)
    if beat and FAULT == "acp beats are text":
        text += "still running\n"
    if "kind" in update or (beat and FAULT == "kind cleared"):
        call["kind"] = update.get("kind")
    if "content" in update:
        call["output"] = update["content"][0]["content"]["text"]
    elif beat and FAULT == "output cleared":
        call["output"] = ""
    if beat and FAULT == "all calls touched":
        for each in calls.values():
            each["status"] = "in_progress"


def take_stream_json(message):
    global text
    beat = message.get("event", message)
    if message["type"] not in ("system", "assistant", "user", "result") and FAULT == "types known":
        sys.exit("unknown type")
    for block in message.get("message", {}).get("content", []):
        if block["type"] == "tool_use":
            calls[block["id"]] = {"status": "in_progress"}
        else:
            status = "failed" if block["is_error"] else "completed"
            calls[block["tool_use_id"]] = {"status": status, "output": block["content"]}
    if beat["type"] == "tool_progress":
        if FAULT == "beats are cards":
            calls.setdefault(beat["tool_use_id"], {"status": "in_progress"})
        if FAULT == "beats are text":
            text += "still running\n"
        if FAULT == "late beat revives" and beat["tool_use_id"] in calls:
            calls[beat["tool_use_id"]]["status"] = "in_progress"
    if message["type"] == "system" and message["subtype"] != "init" and FAULT == "system is text":
        text += message["subtype"]


for line in sys.stdin:
    if FAULT == "silent":
        continue
    if FAULT == "chatty":
        print("got it", flush=True)
        continue
    received = json.loads(line)
    if "params" in received:
        take_acp(received["params"]["update"])
    else:
        take_stream_json(received)
    print(json.dumps({"calls": calls, "text": text}), flush=True)
