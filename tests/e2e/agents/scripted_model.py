"""A model server on loopback whose answers are data: what a real agent is pointed at in place of its provider.

    with ScriptedModel([{"shell": "sleep 25"}, {"text": "done"}]) as model:
        ...  # run an agent against model.url
        model.tool_results()  # what the agent told it of the command

It speaks OpenAI chat completions (`/v1/chat/completions`) and responses (`/v1/responses`), Anthropic messages
(`/v1/messages`) and Gemini (`/v1beta/models/NAME:generateContent`, `:streamGenerateContent`), each as a stream where it
is asked for one. Answer number N of the script is given to a conversation in which N tools have been run: nothing is
remembered from request to request, so titles, summaries and repeated requests disturb nothing. A request that offers no
shell (those are such) is answered with a word.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]
Answer = Mapping[str, str]
"""{"shell": COMMAND} or {"text": TEXT}."""

COMMAND_ARGUMENTS = {
    "run_shell_command": "command",
    "Bash": "command",
    "bash": "command",
    "exec_command": "cmd",
    "shell_command": "command",
}
"""The agents' shells, and what each calls the command's text."""
_PATIENCE = "yield_time_ms"
"""How long Codex's shell waits before it lets the model go on without the command's end: 10 s unless it is asked."""
_FILLERS: dict[str, Any] = {"string": "a test", "boolean": False, "number": 60_000, "integer": 60_000}
_SIDE_ANSWER = {"text": "ok"}


class Call(dict[str, Any]):
    """`name`, `arguments` and `id` of a call of the agent's shell."""


def call_of(answer: Answer, tools: Sequence[tuple[str, Json]], number: int) -> Call | None:
    """The call of the first shell that the agent offers; what its schema demands is filled in, and its patience."""
    if "shell" not in answer:
        return None
    for name, schema in tools:
        if argument := COMMAND_ARGUMENTS.get(name):
            properties = schema.get("properties", {})
            arguments = {
                each: _FILLERS[str(properties[each]["type"]).lower()]
                for each in {*schema.get("required", []), *properties.keys() & {_PATIENCE}}
                if each != argument
            }
            return Call(name=name, arguments={argument: answer["shell"], **arguments}, id=f"call_{number + 1}")
    return None


class _Dialect:
    """One provider's protocol: what a request offers and has seen, and what an answer looks like."""

    def tools(self, request: Json) -> list[tuple[str, Json]]:
        raise NotImplementedError

    def results(self, request: Json) -> list[str]:
        raise NotImplementedError

    def events(self, request: Json, text: str, call: Call | None) -> Iterator[tuple[str | None, Json]]:
        """(SSE event name or None, data), in order."""
        raise NotImplementedError

    def whole(self, request: Json, text: str, call: Call | None) -> Json:
        raise NotImplementedError


class _ChatCompletions(_Dialect):
    """https://platform.openai.com/docs/api-reference/chat"""

    def tools(self, request: Json) -> list[tuple[str, Json]]:
        functions = [tool.get("function", {}) for tool in request.get("tools", [])]
        return [(each.get("name", ""), each.get("parameters", {})) for each in functions]

    def results(self, request: Json) -> list[str]:
        return [_text(each.get("content")) for each in request["messages"] if each["role"] == "tool"]

    def events(self, request: Json, text: str, call: Call | None) -> Iterator[tuple[str | None, Json]]:
        delta: Json = {"role": "assistant", "content": text}
        if call is not None:
            delta["tool_calls"] = [{"index": 0, **self._call(call)}]
        yield None, self._chunk(request, delta=delta, finish_reason=None)
        yield None, self._chunk(request, delta={}, finish_reason="stop" if call is None else "tool_calls")
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        yield None, {**self._chunk(request, delta={}, finish_reason=None), "choices": [], "usage": usage}

    def whole(self, request: Json, text: str, call: Call | None) -> Json:
        message: Json = {"role": "assistant", "content": text}
        if call is not None:
            message["tool_calls"] = [self._call(call)]
        answer = self._chunk(request, message=message, finish_reason="stop" if call is None else "tool_calls")
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        return {**answer, "object": "chat.completion", "usage": usage}

    def _call(self, call: Call) -> Json:
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        return {"id": call["id"], "type": "function", "function": function}

    def _chunk(self, request: Json, **choice: Any) -> Json:
        return {
            "id": "answer",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, **choice}],
        }


class _Responses(_Dialect):
    """https://platform.openai.com/docs/api-reference/responses-streaming"""

    def tools(self, request: Json) -> list[tuple[str, Json]]:
        return [(each.get("name", ""), each.get("parameters", {})) for each in request.get("tools", [])]

    def results(self, request: Json) -> list[str]:
        items = request["input"] if isinstance(request["input"], list) else []
        return [_text(each["output"]) for each in items if each.get("type") == "function_call_output"]

    def events(self, request: Json, text: str, call: Call | None) -> Iterator[tuple[str | None, Json]]:
        whole = self.whole(request, text, call)
        started = {**whole, "status": "in_progress", "output": []}
        yield "response.created", {"type": "response.created", "response": started}
        for index, item in enumerate(whole["output"]):
            yield (
                "response.output_item.added",
                {"type": "response.output_item.added", "output_index": index, "item": item},
            )
            yield (
                "response.output_item.done",
                {"type": "response.output_item.done", "output_index": index, "item": item},
            )
        yield "response.completed", {"type": "response.completed", "response": whole}

    def whole(self, request: Json, text: str, call: Call | None) -> Json:
        item: Json
        if call is None:
            content = [{"type": "output_text", "text": text, "annotations": []}]
            item = {"type": "message", "id": "item", "role": "assistant", "status": "completed", "content": content}
        else:
            item = {
                "type": "function_call",
                "id": "item",
                "call_id": call["id"],
                "name": call["name"],
                "arguments": json.dumps(call["arguments"]),
                "status": "completed",
            }
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 20,
        }
        return {
            "id": "answer",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": request["model"],
            "output": [item],
            "usage": usage,
        }


class _Messages(_Dialect):
    """https://docs.anthropic.com/en/api/messages-streaming"""

    def tools(self, request: Json) -> list[tuple[str, Json]]:
        return [(each.get("name", ""), each.get("input_schema", {})) for each in request.get("tools", [])]

    def results(self, request: Json) -> list[str]:
        contents = [each["content"] for each in request["messages"] if isinstance(each["content"], list)]
        blocks = [block for content in contents for block in content]
        return [_text(block.get("content")) for block in blocks if block.get("type") == "tool_result"]

    def events(self, request: Json, text: str, call: Call | None) -> Iterator[tuple[str | None, Json]]:
        whole = self.whole(request, text, call)
        message = {**whole, "content": [], "stop_reason": None}
        yield "message_start", {"type": "message_start", "message": message}
        block = whole["content"][0]
        if call is None:
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": text}
        else:
            partial = json.dumps(call["arguments"])
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": partial}
        yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": start}
        yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": 0}
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}}
        yield "message_stop", {"type": "message_stop"}

    def whole(self, request: Json, text: str, call: Call | None) -> Json:
        block = {"type": "text", "text": text}
        if call is not None:
            block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["arguments"]}
        return {
            "id": "answer",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [block],
            "stop_reason": "end_turn" if call is None else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 10},
        }


class _Gemini(_Dialect):
    """https://ai.google.dev/api/generate-content"""

    def tools(self, request: Json) -> list[tuple[str, Json]]:
        declarations = [each for tool in request.get("tools", []) for each in tool.get("functionDeclarations", [])]
        return [(each["name"], each.get("parametersJsonSchema") or each.get("parameters", {})) for each in declarations]

    def results(self, request: Json) -> list[str]:
        parts = [part for content in request["contents"] for part in content.get("parts", [])]
        results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
        return [_text(result.get("output", result)) for result in results]

    def events(self, request: Json, text: str, call: Call | None) -> Iterator[tuple[str | None, Json]]:
        yield None, self.whole(request, text, call)

    def whole(self, request: Json, text: str, call: Call | None) -> Json:
        part: Json = {"text": text}
        if call is not None:
            part = {"functionCall": {"id": call["id"], "name": call["name"], "args": call["arguments"]}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
        return {"candidates": [candidate], "usageMetadata": usage}


def _text(content: Any) -> str:
    """Of a string, or of a list of parts that have text."""
    if isinstance(content, list):
        return "".join(part if isinstance(part, str) else part.get("text", "") for part in content)
    return content if isinstance(content, str) else json.dumps(content)


def _dialect(path: str) -> _Dialect | None:
    if path.endswith("/chat/completions"):
        return _ChatCompletions()
    if path.endswith("/responses"):
        return _Responses()
    if path.endswith("/messages"):
        return _Messages()
    if path.endswith("enerateContent"):
        return _Gemini()
    return None


class ScriptedModel:
    """A context manager. `url` has no trailing slash and no version: agents add `/v1` or `/v1beta` or are told to."""

    def __init__(self, script: Sequence[Answer]) -> None:
        self._script = script
        self._lock = threading.Lock()
        self._conversations: list[tuple[str, list[str]]] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._json({"data": [], "models": []})

            def do_HEAD(self) -> None:
                self._json({})

            def do_POST(self) -> None:
                path = self.path.partition("?")[0]
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if (dialect := _dialect(path)) is None:
                    # Counts of tokens, telemetry that is meant for the provider, and the like.
                    self._json({"totalTokens": 10, "input_tokens": 10})
                    return
                request = json.loads(body)
                request.setdefault("model", "scripted")
                text, call = model.answer(path, dialect, request)
                if not (request.get("stream") or "streamGenerateContent" in path):
                    self._json(dialect.whole(request, text, call))
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for event, data in dialect.events(request, text, call):
                    name = f"event: {event}\n" if event else ""
                    self.wfile.write(f"{name}data: {json.dumps(data)}\n\n".encode())
                if isinstance(dialect, _ChatCompletions):
                    self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def _json(self, answer: Json) -> None:
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass  # an agent that was cancelled hangs up

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def answer(self, path: str, dialect: _Dialect, request: Json) -> tuple[str, Call | None]:
        tools, results = dialect.tools(request), dialect.results(request)
        with self._lock:
            self._conversations.append((path, results))
        offers_shell = any(name in COMMAND_ARGUMENTS for name, _ in tools)
        answer = self._script[min(len(results), len(self._script) - 1)] if offers_shell else _SIDE_ANSWER
        return answer.get("text", ""), call_of(answer, tools, len(results))

    def tool_results(self) -> list[str]:
        """What the agent has told of its commands, in the longest conversation that was seen."""
        with self._lock:
            return max((results for _, results in self._conversations), key=len, default=[])

    def requests(self) -> list[str]:
        """The paths of what was asked for, in order."""
        with self._lock:
            return [path for path, _ in self._conversations]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
