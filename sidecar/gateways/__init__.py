"""Frames -> what agents' protocols say: ACP, the stream-json of Qwen and Claude, MCP.

Each format is a pure function `encode(command, frame, context) -> record | None`: `command` is the command's
command_started frame, `frame` a later frame of the same command, `context` what the protocol needs and no frame
says. None = this format has nothing to say of that frame. docs/wire.md is the page for users.

What holds for all of them: only the agent's own tool call id is ever named, a command without one is not told of;
meta only, never output, a title, a kind or content; nothing once the command has settled (there is no frame then).
"""
