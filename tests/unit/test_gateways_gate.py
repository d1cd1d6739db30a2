"""The settle gate: what may be said for a call, whatever the order in which things come."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.gateways import gate as module
from sidecar.gateways.gate import Gate


def update(call: object, status: object = "in_progress", session: object = "s", **extra: object) -> dict[str, Any]:
    body: dict[str, Any] = {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, **extra}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": body}}


def asks(request: object, call: str, session: str = "s", *, version: int = 1) -> dict[str, Any]:
    tool_call = {"toolCallId": call}
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    subject = {"toolCall": tool_call} if version == 1 else {"subject": {"type": "tool_call", "toolCall": tool_call}}
    params = {"sessionId": session, "options": options, **subject}
    return {"jsonrpc": "2.0", "id": request, "method": "session/request_permission", "params": params}


def answers(request: object, option: str | None) -> dict[str, Any]:
    outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
    return {"jsonrpc": "2.0", "id": request, "result": {"outcome": outcome}}


def prompt(request: object, session: str = "s") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request, "method": "session/prompt", "params": {"sessionId": session}}


CANCEL = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}


def test_a_call_that_the_agent_never_made() -> None:
    gate = Gate()
    assert not gate.may_beat("s", "call_1")
    gate.agent_said(update("call_1"))
    assert gate.may_beat("s", "call_1")
    assert not gate.may_beat("s", "call_2")
    assert not gate.may_beat("other", "call_1")
    assert gate.open_calls() == [("s", "call_1")]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "expired"])
def test_the_end_is_for_good(status: str) -> None:
    gate = Gate()
    gate.agent_said(update("call_1"))
    gate.agent_said(update("call_1", status))
    assert not gate.may_beat("s", "call_1")
    gate.agent_said(update("call_1"))
    assert not gate.may_beat("s", "call_1")


def test_pending_and_paused_wait_for_the_agents_word() -> None:
    gate = Gate()
    gate.agent_said(update("call_1", "pending"))
    assert not gate.may_beat("s", "call_1")
    gate.agent_said(update("call_1"))
    gate.agent_said(update("call_1", "paused"))
    assert not gate.may_beat("s", "call_1")
    gate.agent_said(update("call_1"))
    assert gate.may_beat("s", "call_1")


def test_an_update_without_a_status_changes_nothing() -> None:
    gate = Gate()
    gate.agent_said(update("call_1"))
    without = update("call_1")
    del without["params"]["update"]["status"]
    gate.agent_said(without)
    assert gate.may_beat("s", "call_1")


@pytest.mark.parametrize("version", [1, 2])
def test_a_question_to_the_user_stands_in_between(version: int) -> None:
    gate = Gate()
    gate.agent_said(update("call_1", "pending"))
    gate.agent_said(asks(7, "call_1", version=version))
    assert not gate.may_beat("s", "call_1")
    gate.client_said(answers("7", "yes"))  # the id is a number
    assert not gate.may_beat("s", "call_1")
    gate.client_said(answers(7, "yes"))
    assert gate.may_beat("s", "call_1")


@pytest.mark.parametrize("option", ["no", None, "maybe"])
def test_a_refusal(option: str | None) -> None:
    gate = Gate()
    gate.agent_said(update("call_1"))
    gate.agent_said(asks(7, "call_1"))
    gate.client_said(answers(7, option))
    assert not gate.may_beat("s", "call_1")


def test_the_client_cancels() -> None:
    gate = Gate()
    gate.agent_said(update("call_1"))
    gate.agent_said(update("call_1", session="t"))
    gate.client_said(CANCEL)
    gate.agent_said(update("call_1"))  # it was on its way
    assert gate.open_calls() == [("t", "call_1")]
    gate.agent_said(update("call_2"))  # of the next turn
    assert gate.may_beat("s", "call_2")


@pytest.mark.parametrize("request_id", [7, "seven", None])
def test_the_client_cancels_the_prompt_itself(request_id: object) -> None:
    gate = Gate()
    gate.client_said(prompt(request_id))
    gate.agent_said(update("call_1"))
    gate.client_said({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 8}})
    assert gate.may_beat("s", "call_1")
    gate.client_said({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request_id}})
    assert not gate.may_beat("s", "call_1")


@pytest.mark.parametrize(("request_id", "answered"), [(None, None), (7, 7.0), (7.0, 7), ("7", "7")])
def test_an_id_is_what_json_rpc_takes_for_one(request_id: object, answered: object) -> None:
    gate = Gate()
    gate.client_said(prompt(request_id))
    gate.agent_said(asks(request_id, "call_1"))
    gate.client_said(answers(answered, "yes"))
    assert gate.may_beat("s", "call_1")
    gate.agent_said({"jsonrpc": "2.0", "id": answered, "result": {"stopReason": "end_turn"}})
    assert not gate.may_beat("s", "call_1")


def test_a_question_under_an_id_that_is_in_use() -> None:
    """The one answer is the first question's; the same question again is no other one."""
    gate = Gate()
    for call in ("call_1", "call_2"):
        gate.agent_said(update(call))
    for call in ("call_1", "call_2", "call_1"):
        gate.agent_said(asks(1, call))
    gate.client_said(answers(1, "yes"))
    assert gate.open_calls() == [("s", "call_1")]


def test_a_loaded_session_is_told_as_it_once_was() -> None:
    gate = Gate()
    gate.client_said({"jsonrpc": "2.0", "id": 3, "method": "session/load", "params": {"sessionId": "s"}})
    gate.agent_said(update("call_1"))
    gate.agent_said(update("call_1", "completed"))
    gate.agent_said(update("call_2"))
    gate.agent_said(update("call_3", session="t"))
    assert gate.open_calls() == [("t", "call_3")]
    gate.agent_said({"jsonrpc": "2.0", "id": 3, "result": None})
    assert gate.open_calls() == [("t", "call_3")]
    for call in ("call_1", "call_2"):  # it runs indeed
        gate.agent_said(update(call))
    assert set(gate.open_calls()) == {("s", "call_2"), ("t", "call_3")}


def test_the_turn_ends() -> None:
    gate = Gate()
    gate.client_said(prompt(3))
    gate.agent_said(update("call_1"))
    gate.agent_said({"jsonrpc": "2.0", "id": 3, "result": {"messageId": "m"}})  # version 2: it has only begun
    assert gate.may_beat("s", "call_1")
    gate.client_said(prompt(4))
    gate.agent_said({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn"}})
    assert not gate.may_beat("s", "call_1")
    gate.agent_said(update("call_2"))
    idle = {"sessionUpdate": "state_update", "state": "idle"}
    gate.agent_said({"method": "session/update", "params": {"sessionId": "s", "update": idle}})
    assert not gate.may_beat("s", "call_2")


def test_after_something_that_could_not_be_read_the_agent_must_speak_first() -> None:
    gate = Gate()
    gate.agent_said(update("call_1"))
    gate.unreadable()
    assert not gate.may_beat("s", "call_1")
    gate.agent_said(update("call_1"))
    assert gate.may_beat("s", "call_1")
    gate.close()
    assert not gate.may_beat("s", "call_1")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CALLS", 3)
    monkeypatch.setattr(module, "MAX_REQUESTS", 3)
    gate = Gate()
    for number in range(10):
        gate.agent_said(update(f"call_{number}"))
        gate.agent_said(asks(number, f"call_{number}"))
        gate.client_said(prompt(number))
    assert len(gate._calls) == len(gate._asked) == len(gate._prompts) == 3
    gate.client_said(answers(0, "yes"))
    assert gate.open_calls() == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["session/update", "session/request_permission", "session/prompt", "session/cancel"]) | JSON
ODD = st.fixed_dictionaries(
    {"method": NAMES, "params": JSON},
    optional={"id": JSON, "result": JSON},
)


@given(st.lists(st.tuples(st.booleans(), ODD | JSON), max_size=20))
def test_nothing_that_comes_raises(messages: list[tuple[bool, Any]]) -> None:
    gate = Gate()
    for from_agent, message in messages:
        (gate.agent_said if from_agent else gate.client_said)(message)
    gate.open_calls()


CALLS = st.sampled_from(["call_1", "call_2"])
SESSIONS = st.sampled_from(["s", "t"])
EVENTS = st.one_of(
    st.tuples(
        st.just("status"),
        SESSIONS,
        CALLS,
        st.sampled_from(["pending", "in_progress", "completed", "failed", "cancelled", None]),
    ),
    st.tuples(st.just("ask"), SESSIONS, CALLS, st.integers(1, 3)),
    st.tuples(st.just("answer"), st.integers(1, 3), st.sampled_from(["yes", "no", None])),
    st.tuples(st.just("cancel"), SESSIONS),
    st.tuples(st.just("prompt"), SESSIONS, st.integers(11, 13)),
    st.tuples(st.just("turn ends"), st.integers(11, 13)),
    st.tuples(st.just("unreadable")),
    st.tuples(st.just("beat"), SESSIONS, CALLS),
)


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=40))
def test_no_client_ever_sees_a_call_come_back_to_life(events: list[tuple[Any, ...]]) -> None:
    """The client's own view, kept by its simplest reading, against what the gate lets through."""
    gate = Gate()
    made: set[tuple[str, str]] = set()
    over: set[tuple[str, str]] = set()
    unanswered: dict[int, tuple[str, str]] = {}
    prompts: dict[int, str] = {}

    def end(session: str) -> None:
        over.update(call for call in made if call[0] == session)

    for event in events:
        match event:
            case ("status", session, call, status):
                gate.agent_said(update(call, status, session))
                made.add((session, call))
                if status in ("completed", "failed", "cancelled"):
                    over.add((session, call))
            case ("ask", session, call, request):
                gate.agent_said(asks(request, call, session))
                made.add((session, call))
                unanswered.setdefault(request, (session, call))
            case ("answer", request, option):
                gate.client_said(answers(request, option))
                unanswered.pop(request, None)
            case ("cancel", session):
                gate.client_said({**CANCEL, "params": {"sessionId": session}})
                end(session)
            case ("prompt", session, request):
                gate.client_said(prompt(request, session))
                prompts[request] = session
            case ("turn ends", request):
                gate.agent_said({"id": request, "result": {"stopReason": "end_turn"}})
                if request in prompts:
                    end(prompts.pop(request))
            case ("unreadable",):
                gate.unreadable()
            case ("beat", session, call):
                if gate.may_beat(session, call):
                    assert (session, call) in made
                    assert (session, call) not in over
                    assert (session, call) not in unanswered.values()
