"""Sessions of other agents, told in our own events: nesting, what is kept, what is named as lost, growth."""

import io
import json

import pytest
from django.contrib.auth.models import User

from sidechat_web.core import events as ev
from sidechat_web.core.errors import LogConflict, LogUnreadable
from sidechat_web.core.events import Replace, text_of
from sidechat_web.formats.checking import faults
from sidechat_web.formats.dsh import DshLog
from sidechat_web.formats.exporting import export_dsh, export_openai
from sidechat_web.formats.importing import import_logs
from sidechat_web.formats.opening import open_log
from sidechat_web.runtime.adoption import adopt
from sidechat_web.storage import log, reading
from sidechat_web.storage.models import Session

from . import agents
from .agents import ClaudeFile, CodexFile, call, text, thinking

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(db):
    return User.objects.create(username="ann")


def bring(owner, *contents, **options):
    """Import, and hold what was told to the rules of our own logs."""
    found = import_logs(owner, agents.files(*contents), **options)
    assert [list(faults(session)) for session in found] == [[] for _ in found]
    return found


def told(session):
    """The surface in short: who said what."""
    return [(m["role"][0], said(m)) for m in reading.surface(session).messages()]


def said(message):
    parts = []
    for block in message["content"]:
        match block["type"]:
            case "tool-call":
                parts.append(f"{block['id']}={block['name']}({block['arguments']})")
            case "tool-result":
                parts.append(f"{block['toolCallId']}→{text_of(block)}" + ("!" if block.get("isError") else ""))
            case kind:
                parts.append(f"({block['text']})" if kind == "reasoning" else block["text"])
    return " ".join(parts)


def reasons(session):
    return [e.data["reason"]["kind"] for e in reading.events(session, types=[ev.TURN_END])]


def lost(session):
    return session.settings["imported"]["lost"]


# -- Claude Code ---------------------------------------------------------------------------------


def test_claude_code_answers_are_whole_and_calls_have_their_results(ann):
    [session] = bring(ann, agents.claude().bytes())
    assert told(session) == [
        ("u", "What is in the shop?"),
        ("a", '(Look first.) I look. t1=Read({"path":"a"}) t2=Read({"path":"b"})'),
        ("u", "t1→pears"),
        ("u", "t2→plums!"),
        ("a", "Pears and plums."),
        ("u", "Thanks"),
        ("a", "You are welcome."),
    ]
    assert reasons(session) == ["completed", "completed"]
    assert (session.cwd, session.title, session.kind) == ("/home/ann/shop", "What is in the shop?", "main")


def test_claude_code_keeps_times_model_usage_and_signatures(ann):
    [session] = bring(ann, agents.claude().bytes())
    first, answer = reading.event(session, 2), reading.event(session, 8)
    start = int(agents.START.timestamp() * 1000)
    assert (first.time, answer.time) == (start + 1000, start + 5000)
    assert answer.data["message"]["content"][0]["signature"] == "c2lnbmF0dXJl"
    assert answer.data["message"]["source"]["model"] == "claude-opus-4-5"
    assert answer.data["usage"] == {"inputTokens": 3, "outputTokens": 5, "cacheReadTokens": 100}
    assert (session.input_tokens, session.cache_read_tokens) == (9, 300)
    assert session.settings["header"] == {"config": {"provider": "anthropic", "model": "claude-opus-4-5"}}
    assert lost(session) == ["the system prompt and the tool schemas"]


def test_a_block_can_be_seen_before_its_answer_is_whole(ann):
    file = agents.claude()
    log = open_log(io.BytesIO(file.bytes(4)))
    events = [event for line in log.more(io.BytesIO(file.bytes(4))) for event in line.events()]
    assert [e.data["chunk"]["text"] for e in events if e.type == ev.ASSISTANT_CHUNK] == ["Look first.", "I look."]
    assert ev.ASSISTANT_MESSAGE not in [e.type for e in events]


def test_results_between_the_calls_of_one_answer_split_it(ann):
    file = ClaudeFile()
    file.user("Look twice")
    for n in (1, 2):
        file.answer("msg_1", call(f"t{n}"))
        file.result(f"t{n}", str(n))
    [session] = bring(ann, file.bytes())
    assert [who for who, _ in told(session)] == ["u", "a", "u", "a", "u"]


def test_a_call_without_a_result_is_answered_when_the_next_prompt_comes(ann):
    file = ClaudeFile()
    file.user("Look")
    file.answer("msg_1", call("t1"))
    file.user("Never mind")
    file.answer("msg_2", text("Fine."), stop="end_turn")
    [session] = bring(ann, file.bytes())
    assert told(session)[2][1].startswith("t1→The session stopped while this tool was running")
    assert reasons(session) == ["interrupted", "completed"]


def test_stop_ends_the_turn(ann):
    file = ClaudeFile()
    file.user("Look")
    file.answer("msg_1", text("I loo"))
    file.user([text("[Request interrupted by user]"), text("rather not")])
    [session] = bring(ann, file.bytes())
    assert told(session) == [("u", "Look"), ("a", "I loo"), ("u", "rather not")]
    assert reasons(session) == ["aborted"] and session.left_open


def test_a_prompt_after_results_steers_the_running_turn(ann):
    file = ClaudeFile()
    file.user("Look")
    file.answer("msg_1", call("t1"))
    file.result("t1")
    file.record("attachment", attachment={"type": "queued_command", "prompt": "quickly"})
    file.record("attachment", attachment={"type": "todo_reminder"})
    file.answer("msg_2", text("Done."), stop="end_turn")
    [session] = bring(ann, file.bytes())
    assert [words for _, words in told(session)] == ["Look", "t1=Read({})", "t1→done", "quickly", "Done."]
    assert reasons(session) == ["completed"]
    assert "context that the program added by itself" in lost(session)


def test_what_programs_inject_is_context_and_never_parts_a_call_from_its_result(ann):
    file = ClaudeFile()
    file.user("<command-name>/init</command-name>")
    file.user("Caveat: The messages below were generated by the user", isMeta=True)
    file.user("Look")
    file.answer("msg_1", call("t1"))
    file.user("a reminder", isMeta=True)
    file.result("t1")
    [session] = bring(ann, file.bytes())
    kinds = [(e.type, text_of(e.message)) for e in reading.events(session) if e.on_surface]
    assert [kind for kind, _ in kinds] == [
        "context/message",
        "context/message",
        "user/message",
        "assistant/message",
        "tool/result",
        "context/message",
    ]


def test_going_back_takes_what_was_left_behind_off_the_surface(ann):
    file = ClaudeFile()
    file.user("One")
    first = file.answer("msg_1", text("1"), stop="end_turn")
    file.user("Two")
    file.answer("msg_2", text("2"), stop="end_turn")
    file.user("Rather three", parent=first)
    file.answer("msg_3", text("3"), stop="end_turn")
    [session] = bring(ann, file.bytes())
    assert [words for _, words in told(session)] == [
        "One",
        "1",
        "[The user went back to this point. What followed here before was left behind.]",
        "Rather three",
        "3",
    ]
    [back] = [e for e in reading.events(session) if isinstance(e.surface_op, Replace)]
    assert back.data["source"] == {"kind": "plugin", "plugin": "claude-code", "form": "notice"}
    assert any("went back" in what for what in lost(session))


def test_a_compaction_replaces_what_came_before(ann):
    file = agents.claude()
    file.record("system", parent=None, subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    file.user("They talked about fruit.", isCompactSummary=True)
    file.user("Go on")
    [session] = bring(ann, file.bytes())
    assert [words for _, words in told(session)] == ["They talked about fruit.", "Go on"]
    marks = [e.type for e in reading.events(session) if e.type.startswith("compaction/")]
    assert marks == ["compaction/start", "compaction/summary", "compaction/end"]


def test_a_failed_request_is_the_turns_end_and_no_answer(ann):
    file = ClaudeFile()
    file.user("Look")
    file.record(
        "assistant",
        isApiErrorMessage=True,
        message={"model": "<synthetic>", "content": [text("API Error: overloaded")]},
    )
    [session] = bring(ann, file.bytes())
    assert told(session) == [("u", "Look")]
    assert session.last_reason == {"kind": "error", "error": {"message": "API Error: overloaded", "code": "API"}}


def test_titles_count_only_where_they_are_this_sessions(ann):
    file = agents.claude()
    file.raw(json.dumps({"type": "summary", "summary": "Another session", "leafUuid": "elsewhere"}))
    file.raw(json.dumps({"type": "summary", "summary": "Fruit", "leafUuid": "uuid-1"}))
    [session] = bring(ann, file.bytes())
    assert session.title == "Fruit"
    file.raw(json.dumps({"type": "custom-title", "customTitle": "My fruit", "sessionId": "x"}))
    file.raw(json.dumps({"type": "ai-title", "aiTitle": "Some fruit", "sessionId": "x"}))
    assert bring(ann, file.bytes())[0].title == "My fruit"


def test_a_sub_agents_file_is_a_child_and_its_lines_elsewhere_are_counted(ann):
    main, agent = agents.claude(), ClaudeFile(isSidechain=True, agentId="abc")
    agent.user("Count the pears")
    agent.answer("msg_9", text("Two."), stop="end_turn")
    main.raw(agent.lines[0].replace("uuid-1", "uuid-side"))
    child, parent = bring(ann, agent.bytes(), main.bytes())
    assert child.log_id == f"{parent.log_id}/abc"
    assert (Session.objects.get(pk=child.pk).parent, child.origin) == (parent, "subagent")
    assert told(child) == [("u", "Count the pears"), ("a", "Two.")]
    assert "messages of sub-agents" in lost(parent)


def test_images_and_unknown_blocks_are_named_in_their_place(ann):
    file = ClaudeFile()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    file.user([text("See:"), image])
    file.answer("msg_1", {"type": "server_tool_use", "name": "web_search"}, thinking("hm"), stop="end_turn")
    file.raw("{broken")
    [session] = bring(ann, file.bytes())
    assert told(session)[0] == ("u", "See: [image: image/png]")
    assert told(session)[1][1].startswith("[server_tool_use] {")
    assert {"images", "blocks of type server_tool_use", "lines that could not be read"} <= set(lost(session))


# -- Codex ---------------------------------------------------------------------------------------


def test_codex_items_become_turns_steps_and_calls(ann):
    [session] = bring(ann, agents.codex().bytes())
    assert [words for _, words in told(session)] == [
        "<permissions instructions>Ask first.</permissions instructions>",
        "<environment_context><cwd>/home/ann/shop</cwd></environment_context>",
        "What is in the shop?",
        '(Look first.) c1=shell({"command":["ls"]})',
        "c1→pears",
        "Pears.",
        "Thanks",
        "You are welcome.",
    ]
    assert reasons(session) == ["completed", "completed"]
    header = {"config": {"provider": "openai", "model": "gpt-5.5-codex"}, "system": "You are a coding agent."}
    assert session.settings["header"] == header
    assert (session.input_tokens, session.cache_read_tokens, session.reasoning_tokens) == (60, 300, 6)
    assert lost(session) == ["the tool schemas", "reasoning that the provider keeps encrypted"]


def test_codex_marks_aborted_and_rolled_back_turns(ann):
    file = agents.codex()
    file.event("task_started")
    file.said("user", "Delete it all")
    file.item("custom_tool_call", name="apply_patch", call_id="c9", input="*** Begin Patch")
    file.event("turn_aborted", reason="interrupted")
    file.event("thread_rolled_back", num_turns=1)
    file.event("task_started")
    file.said("user", "Keep it")
    [session] = bring(ann, file.bytes())
    assert [words for _, words in told(session)][-2:] == [
        "[The user went back to this point. What followed here before was left behind.]",
        "Keep it",
    ]
    assert reasons(session) == ["completed", "completed", "aborted"]
    results = [e for e in reading.events(session, types=[ev.TOOL_RESULT]) if e.data.get("error")]
    assert [e.data["error"]["code"] for e in results] == ["TOOL_OUTCOME_UNKNOWN"]


def test_codex_steers_and_provider_tools(ann):
    file = CodexFile()
    file.event("task_started")
    file.said("user", "Search")
    file.item("web_search_call", id="ws1", action={"type": "search", "query": "pears"})
    file.said("user", "also plums")
    file.said("assistant", "Found both.")
    file.event("task_complete")
    [session] = bring(ann, file.bytes())
    assert [words for _, words in told(session)] == [
        "Search",
        'ws1=web_search({"type":"search","query":"pears"})',
        "ws1→(the provider ran this; its result is not in the log)",
        "also plums",
        "Found both.",
    ]


def test_codex_compaction(ann):
    file = agents.codex()
    kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks"}]}]
    file.line("compacted", {"message": "They talked about fruit.", "replacement_history": kept})
    [session] = bring(ann, file.bytes())
    assert told(session) == [("u", "They talked about fruit.")]


def test_the_oldest_codex_files_have_bare_items(ann):
    lines = [
        {"id": "old-1", "timestamp": "2025-05-01T10:00:00Z", "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"record_type": "state"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
    ]
    [session] = bring(ann, "".join(json.dumps(line) + "\n" for line in lines).encode())
    assert told(session) == [("u", "Hello"), ("a", "Hi.")] and reasons(session) == ["completed"]


# -- Chat messages -------------------------------------------------------------------------------


def test_messages_become_turns_with_system_prompt_and_tools(ann):
    [session] = bring(ann, agents.chat())
    assert [words for _, words in told(session)] == [
        "What is in there?",
        "(Look first.) c1=look({})",
        "c1→pears",
        "Pears.",
    ]
    header = session.settings["header"]
    assert (header["system"], header["tools"][0]["name"]) == ("Be brief.", "look")
    assert (header["config"], lost(session)) == ({"provider": "imported", "model": "acme-1"}, ["when it was said"])


@pytest.mark.parametrize("form", [lambda d: json.dumps(d["messages"]), lambda d: json.dumps(d, indent=2), json.dumps])
def test_messages_in_any_layout(ann, form):
    [session] = bring(ann, form(agents.CHAT).encode())
    assert len(told(session)) == 4


def test_what_leaves_as_messages_comes_back_with_the_same_messages(ann):
    [session] = bring(ann, agents.codex().bytes())
    [back] = bring(ann, b"".join(export_openai(session)))
    assert back.pk != session.pk
    assert [words for _, words in told(back)] == [words for _, words in told(session)]


def test_conversations_with_the_same_beginning_are_told_apart(ann):
    whole = agents.CHAT["messages"]
    other = [*whole[:4], {"role": "assistant", "content": "Plums."}]
    [one], [two] = bring(ann, agents.chat()), bring(ann, agents.chat(messages=other))
    assert one.pk != two.pk
    [longer] = bring(ann, agents.chat(messages=[*other, {"role": "user", "content": "And?"}]))
    [shorter] = bring(ann, agents.chat(messages=whole[:4]))
    assert (longer.pk, shorter.pk) == (two.pk, two.pk) and Session.objects.count() == 2


@pytest.mark.parametrize("bad", [b'{"messages": [1]}', b'{"messages": [{"role": "king"}]}', b'[{"content": "x"}]'])
def test_what_is_no_list_of_messages_is_refused(ann, bad):
    with pytest.raises(LogUnreadable, match=r"0\.jsonl: messages must be"):
        bring(ann, bad)


# -- All of them ---------------------------------------------------------------------------------

GROWING = [(agents.claude, 12), (agents.codex, 20)]


@pytest.mark.parametrize("make, count", GROWING)
def test_every_shorter_version_is_extended_by_the_next(ann, make, count):
    file = make()
    assert len(file.lines) == count
    for n in range(4, count + 1):
        [session] = bring(ann, file.bytes(n))
        before = session.next_seq
        assert bring(ann, file.bytes(n))[0].next_seq == before
    assert Session.objects.count() == 1 and session.last_turn >= 2
    assert told(session)[-1] == ("a", "You are welcome.")
    assert bring(ann, file.bytes(5))[0].next_seq == before


@pytest.mark.parametrize("make", [agents.claude, agents.codex])
def test_another_history_of_the_same_session_is_a_conflict(ann, make):
    bring(ann, make().bytes())
    with pytest.raises(LogConflict):
        bring(ann, make().bytes().replace(b"What is in the shop?", b"What is on the roof?"))


def test_a_session_that_was_continued_here_takes_nothing_more(ann):
    file = agents.claude()
    [session] = bring(ann, file.bytes(7))
    note = ev.context_message("n", "a note", {"kind": "plugin", "plugin": "sidechat"})
    adopt(session)
    log.append(session.pk, [note])
    assert bring(ann, file.bytes(7))[0].pk == session.pk
    with pytest.raises(LogConflict, match="continued here"):
        bring(ann, file.bytes())


@pytest.mark.parametrize("content", [agents.claude().bytes(), agents.codex().bytes(), agents.chat()])
def test_what_was_told_anew_leaves_as_a_log_that_the_original_accepts(ann, content):
    [session] = bring(ann, content)
    data = b"".join(export_dsh(session))
    events = [event for line in DshLog(io.BytesIO(data)).lines() for event in line.events()]
    assert len(events) == session.next_seq and "context/message" not in {e.type for e in events}
    assert bring(ann, data)[0].pk == session.pk
    [back] = import_logs(User.objects.create(username="bob"), agents.files(data))
    assert told(back) == told(session)


def test_a_file_without_a_message_is_passed_over_beside_others_and_refused_alone(ann):
    empty = b'{"type":"summary","summary":"Fruit","leafUuid":"x"}\n'
    assert len(bring(ann, empty, agents.claude().bytes())) == 1
    with pytest.raises(LogUnreadable, match="holds no message"):
        bring(ann, empty)


def test_a_half_written_last_line_waits(ann):
    file = agents.claude()
    [session] = bring(ann, file.bytes(3) + file.bytes()[len(file.bytes(3)) : -20])
    [whole] = bring(ann, file.bytes())
    assert whole.pk == session.pk and told(whole)[-1] == ("a", "You are welcome.")
