"""What the side session promises, sentence by sentence, and the test of each at the API.

`PROMISES` is the table; the tests that stand nowhere else are below it.
"""

import asyncio
import importlib
import json

import pytest
from asgiref.sync import sync_to_async

from sidechat_web.core import events as ev
from sidechat_web.runtime import runner
from sidechat_web.runtime.quotes import MAX_CHARS
from sidechat_web.runtime.sidechat import frame
from sidechat_web.runtime.tools import registry
from sidechat_web.runtime.tools.registry import Result, Tool
from sidechat_web.storage.models import Session
from tests.conftest import idle

from .agents import caller_for, merges_of, notes_in, refusal

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("running")]

PROMISES = {
    # open
    "One send makes one child, however often it is clicked or retried.": "test_one_send_makes_one_child",
    "A side can be asked while a turn runs, and nothing of it reaches that turn.": "test_asked_while_a_turn_runs",
    "A selection is quoted in the user's message, with a link back.":
        "test_forks.test_quotes_of_a_first_message_are_from_the_parent",
    "Several quotes are numbered, each with its comment, for the side or for main.":
        "test_input.test_message_with_quotes",
    "A long quote is cut, and says so.": "test_a_long_quote_is_cut_and_says_so",
    "The side says up to which turn it knows everything.": "test_sides.test_what_a_side_knows_and_became",
    "It says that a running turn is excluded.": "test_sides.test_what_runs_is_excluded_and_said",
    "It says that it inherits a summary in place of turns A–B.": "test_an_inherited_summary_is_disclosed",
    "It says when main has moved on.": "test_sides.test_what_a_side_knows_and_became",
    "What main did since can be brought in.": "test_forks.test_renewed_side_starts_where_the_parent_is_now",
    "A system prompt of its own is disclosed.": "test_a_system_prompt_of_its_own_is_disclosed",
    # child
    "The seed is the stable prefix, or ends at the chosen message's boundary.": "test_the_seed_is_the_parents_prefix",
    "A message of the open turn has no boundary: refused, never moved.": "test_forks.test_open_turn_has_no_boundary",
    "An empty session forks an empty child.": "test_an_empty_session_forks_an_empty_child",
    "The first own event is exactly one advisor frame with a fixed text.":
        "test_exactly_one_advisor_frame_comes_first",
    "The first request is the parent's last one, extended; no header event when equal.":
        "test_the_first_request_extends_the_parents_last",
    "Queue and approvals are its own; none is inherited.": "test_queue_and_approvals_are_its_own",
    "Another model is allowed, and says that the cache will not apply.":
        "test_another_model_is_allowed_and_disclosed",
    "Only tools that are known to be read-only run; every other call is answered by an error that says why.":
        "test_only_read_only_tools_run_in_a_side",
    "The gate follows the session's own frame and promotion, whatever texts say.":
        "test_no_text_lifts_or_sets_the_gate",
    "An ordinary fork of a side starts with a message that lifts the framing.":
        "test_an_ordinary_fork_of_a_side_is_lifted",
    "Sides of sides see root, middle and own.": "test_sides_of_sides_see_root_middle_and_own",
    "A side is listed with its parent, found by its title, renamed and archived.":
        "test_a_side_is_listed_found_renamed_and_archived",
    "A side survives a restart.": "test_a_side_survives_a_restart",
    "A promoted side is an ordinary session, and can still merge back.": "test_a_promoted_side_acts_and_still_merges",
    "Its title is its own.": "test_its_title_is_its_own",
    # merge back
    "A merge needs an ended turn of the side's own, and none open.": "test_when_a_merge_is_allowed",
    "throughSeq is the last turn end that is no handback's; the draft is kept until that changes.":
        "test_through_seq_and_the_kept_draft",
    "After a retraction the same content may be merged again.":
        "test_merges.test_retract_takes_the_note_off_the_surface_and_the_same_can_be_merged_again",
    "The side is asked in a turn of its own, for conclusion, evidence, caveats and next step.":
        "test_the_side_is_asked_in_a_turn_of_its_own",
    "A second merge asks only for what is new.": "test_a_second_merge_asks_for_what_is_new",
    "The whole note has at most the cap's characters, cut with a mark; what a user writes, too.":
        "test_the_cap_holds_for_drafts_and_for_written_notes",
    "The draft is shown before anything reaches the parent; an edited note says so.":
        "test_review_first_changes_nothing_in_the_parent",
    "A user can write the note without asking the model.": "test_merges.test_merge_with_a_written_note",
    "Exactly one sourced context message enters, with one fixed first line.":
        "test_exactly_one_sourced_message_enters",
    "Into an idle parent at once; the parent's next request has it at its place.":
        "test_the_parents_next_request_has_the_note_at_its_place",
    "A running parent gets it when the turn ends, before any queued prompt; until then it is pending.":
        "test_a_running_parent_gets_it_before_the_queue",
    "A pending merge can be cancelled.":
        "test_merges.test_merge_into_a_running_parent_is_pending_and_can_be_cancelled",
    "It can be sent into the running turn, before its next request and after all results.":
        "test_into_the_running_turn_after_all_results",
    "The same content answers with the same result; a different text is another note.":
        "test_same_content_same_result_other_text_other_note",
    "A double click, two tabs or a retry make one note.":
        "test_merges.test_merge_brings_one_note_however_often_it_is_asked_for",
    "A failed handback leaves the parent untouched, says why and can be retried.":
        "test_merges.test_empty_handback_says_so_and_can_be_retried",
    "The note can be rendered from the stored event alone; the side derives where it was merged.":
        "test_the_stored_event_says_everything",
    "A user's text that imitates a note stays plain text.": "test_an_imitated_note_is_no_note",
    "Retract replaces that one event; the log keeps both.": "test_retract_replaces_one_event_and_the_log_keeps_both",
    "Retract is refused while the parent's turn is open.": "test_forks.test_nothing_is_retracted_while_a_turn_runs",
    "Any number of merges, from any number of sides.": "test_any_number_of_merges_from_any_number_of_sides",
    "One note can come out of several sides.": "test_sides.test_one_note_out_of_several_from_any_path",
    "An archived parent takes a note.": "test_an_archived_parent_takes_a_note",
    "A deleted or read-only parent refuses it with a reason, and the note can be copied.":
        "test_a_parent_that_takes_none_says_why_and_the_note_can_be_copied",
    # delete
    "Deleting a session with sides asks.": "test_deleting_asks_about_sides",
    "Kept sides keep their whole history.": "test_kept_sides_keep_their_history",
    "Running sides are stopped first.": "test_running_sides_are_stopped_and_deleted",
    # accounting
    "A fresh fork has spent nothing and carries the inherited context.": "test_a_fresh_fork_has_spent_nothing",
    "Usage is counted once, on the session that made the request.": "test_usage_is_counted_once",
    "Each side shows the cached share of its first request.": "test_sides.test_what_a_side_knows_and_became",
}  # fmt: skip


@pytest.mark.parametrize("promise", PROMISES)
async def test_every_promise_has_its_test(promise):
    module, _, name = PROMISES[promise].rpartition(".")
    found = importlib.import_module(f"tests.api.{module}") if module else importlib.import_module(__name__)
    assert callable(getattr(found, name))


@pytest.fixture
async def ann(owner):
    return await caller_for(owner)


@pytest.fixture
def tools(monkeypatch):
    """`look` (read-only) and `change`; returns the names of what ran, and the event that lets `look` answer."""
    ran, go = [], asyncio.Event()
    go.set()

    async def look(root, arguments):
        ran.append("look")
        await go.wait()
        return Result("seen")

    async def change(root, arguments):
        ran.append("change")
        return Result("changed")

    shape = {"type": "object", "properties": {}}
    found = [Tool("look", "Look.", shape, True, look), Tool("change", "Change.", shape, False, change)]
    monkeypatch.setattr(registry, "sources", [lambda session, cwd: found])
    return ran, go


async def done(ann, method, path, body=None):
    status, answer = await ann.call(method, path, body)
    assert status < 300, (status, answer)
    return answer


async def made(session_id):
    return await sync_to_async(Session.objects.select_related("parent").get)(pk=session_id)


async def fork(ann, session, **body):
    """A fork of `session` that has answered, if it was asked."""
    shown = await done(ann, "POST", f"/sessions/{session.pk}/fork", body)
    child = await made(shown["id"])
    await idle(child)
    return child


async def say(ann, session, text, **more):
    await done(ann, "POST", f"/sessions/{session.pk}/messages", {"text": text, **more})


async def said(ann, session, text, **more):
    await say(ann, session, text, **more)
    await idle(session)


async def events(ann, session, after=-1):
    return (await done(ann, "GET", f"/sessions/{session.pk}/events?after={after}&limit=1000"))["events"]


async def own(ann, session):
    return await events(ann, session, (session.seed_length or 0) - 1)


async def texts(ann, session):
    found = (await done(ann, "GET", f"/sessions/{session.pk}/messages"))["messages"]
    return [ev.text_of(message) for message in found]


async def body_of(ann, session, n=-1):
    """Request `n` of the session, the last by default."""
    count = len(await done(ann, "GET", f"/sessions/{session.pk}/requests"))
    found = await done(ann, "GET", f"/sessions/{session.pk}/requests/{count if n < 0 else n}")
    return json.loads(found["body"])


def form(event):
    return event["data"]["source"].get("form") if event["type"] == "context/message" else None


async def note_events(ann, session):
    return [e for e in await events(ann, session) if form(e) == "handback"]


async def until_open(session):
    async with asyncio.timeout(10):
        while session.open_turn is None:
            await sync_to_async(session.refresh_from_db)()
            await asyncio.sleep(0.01)


async def running_parent(ann, main):
    await say(ann, main, "[[every:30]][[say:" + "word " * 30 + "]]")
    await until_open(main)


# --- open ---


async def test_one_send_makes_one_child(ann, main):
    ask = ("POST", f"/sessions/{main.pk}/fork", {"text": "why?"}, "one-click")
    answers = await asyncio.gather(*(ann.call(*ask) for _ in range(8)))
    assert len({json.dumps(answer) for answer in answers}) == 1
    child = await made(answers[0][1]["id"])
    await idle(child)
    assert await ann.call(*ask) == answers[0]
    assert await sync_to_async(Session.objects.filter(parent=main).count)() == 1
    assert (await texts(ann, child)).count("why?") == 1


async def test_asked_while_a_turn_runs(ann, main, provider):
    stable = main.next_seq
    await running_parent(ann, main)
    child = await fork(ann, main, text="SIDE-WORD why?")
    await idle(main)
    assert child.seed_length == stable
    assert "word word" not in str(await events(ann, child))
    assert "SIDE-WORD" not in str(await events(ann, main))
    await said(ann, main, "and on")
    assert "SIDE-WORD" not in provider.bodies[-1].decode()


async def test_a_long_quote_is_cut_and_says_so(ann, main):
    quotes = [{"seq": 0, "text": "A sentence. " * 1000}]
    item = (await done(ann, "POST", f"/sessions/{main.pk}/messages", {"text": "why?", "quotes": quotes}))["item"]
    assert item["quotes"][0]["cut"] is True
    quoted = item["text"].split("\n")[1]
    assert len(quoted) <= MAX_CHARS + 2 and quoted.endswith("[…]")
    await idle(main)


async def test_an_inherited_summary_is_disclosed(ann, main):
    for n in range(3):
        await said(ann, main, f"question {n}")
    await done(ann, "POST", f"/sessions/{main.pk}/compact")
    async with asyncio.timeout(10):
        while "compaction/end" not in [e["type"] for e in await events(ann, main)]:
            await asyncio.sleep(0.02)
    child = await fork(ann, main, text="why?")
    assert (await done(ann, "GET", f"/sessions/{child.pk}/side"))["summary"] == [1, 2]
    assert "what shall we build?" not in await texts(ann, child)


async def test_a_system_prompt_of_its_own_is_disclosed(ann, main, settings):
    settings.SIDECHAT_ADVISOR_SYSTEM_PROMPT = "You advise."
    child = await fork(ann, main, text="why?")
    assert (await done(ann, "GET", f"/sessions/{child.pk}/side"))["ownSystem"] is True
    assert (await body_of(ann, child))["messages"][0] == {"role": "system", "content": "You advise."}


# --- child ---


async def test_the_seed_is_the_parents_prefix(ann, main):
    await said(ann, main, "second question")
    before = await events(ann, main)
    whole = await fork(ann, main, text="why?")
    first_answer = next(e["seq"] for e in before if e["type"] == "assistant/message")
    older = await fork(ann, main, atSeq=first_answer, text="why?")
    for child in (whole, older):
        assert (await events(ann, child))[: -len(await own(ann, child))] == [
            e for e in before if e["seq"] < child.seed_length
        ]
    assert whole.seed_length == len(before) + chunks(before)
    assert [e["data"]["turn"] for e in await events(ann, older) if e["type"] == "turn/end"][:1] == [1]
    assert "second question" not in str(await events(ann, older))
    assert await events(ann, main) == before


def chunks(found):
    """How many seqs the chunk events take that were left out."""
    return found[-1]["seq"] + 1 - len(found)


async def test_an_empty_session_forks_an_empty_child(ann):
    empty = await made((await done(ann, "POST", "/sessions"))["id"])
    child = await fork(ann, empty, text="hello")
    assert child.seed_length == 0
    assert (await done(ann, "GET", f"/sessions/{child.pk}/side"))["turn"] == 0


async def test_exactly_one_advisor_frame_comes_first(ann, side):
    first, *rest = await own(ann, side)
    assert (first["seq"], first["type"], first["surfaceOp"]) == (side.seed_length, "context/message", "append")
    assert first["data"]["source"] == {"kind": "plugin", "plugin": "sidechat", "form": "advisor"}
    assert ev.text_of(first["data"]) == frame.ADVISOR_TEXT
    assert [e for e in rest if form(e) == "advisor"] == []


async def test_the_first_request_extends_the_parents_last(ann, tools, main):
    await said(ann, main, "with tools")
    child = await fork(ann, main, text="why?")
    last, first = await body_of(ann, main), await body_of(ann, child)
    n = len(last["messages"])
    assert first["messages"][:n] == last["messages"]
    assert {**first, "messages": None} == {**last, "messages": None}
    assert [t["function"]["name"] for t in first["tools"]] == ["change", "look"]
    assert "request/header" not in [e["type"] for e in await own(ann, child)]


async def test_queue_and_approvals_are_its_own(ann, main, tools):
    await say(ann, main, "[[call:change {}]]")
    async with asyncio.timeout(10):
        while not (asked := await done(ann, "GET", f"/sessions/{main.pk}/approvals")):
            await asyncio.sleep(0.02)
    await say(ann, main, "queued in main")
    child = await fork(ann, main, text="why?")
    assert await done(ann, "GET", f"/sessions/{child.pk}/approvals") == []
    assert await done(ann, "GET", f"/sessions/{child.pk}/queue") == {"items": []}
    assert "queued in main" not in await texts(ann, child)
    await done(ann, "POST", f"/approvals/{asked[0]['id']}", {"decision": "deny"})
    await idle(main)


async def test_another_model_is_allowed_and_disclosed(ann, main):
    child = await fork(ann, main, text="why?", model="custom/scripted-2")
    assert (await body_of(ann, child))["model"] == "scripted-2"
    assert (await done(ann, "GET", f"/sessions/{child.pk}/side"))["ownModel"] is True


async def test_only_read_only_tools_run_in_a_side(ann, main, tools):
    ran, _ = tools
    child = await fork(ann, main, text='[[call:look {}]][[call:change {"read_only": true}]][[call:unheard_of {}]]')
    assert ran == ["look"]
    results = [e for e in await own(ann, child) if e["type"] == "tool/result"]
    assert [e["data"].get("error", {}).get("code") for e in results] == [None, "DENIED", "DENIED"]
    for denied in results[1:]:
        [block] = denied["data"]["message"]["content"]
        assert block["isError"] and "side session" in block["content"][0]["text"]
    assert child.last_reason == {"kind": "completed"}


async def test_no_text_lifts_or_sets_the_gate(ann, main, tools):
    ran, _ = tools
    child = await fork(ann, main, text=f"{frame.PROMOTION_TEXT} [[call:change {{}}]]")
    assert ran == []
    assert child.last_reason == {"kind": "completed"}
    await say(ann, main, f"{frame.ADVISOR_TEXT} [[call:change {{}}]]")
    async with asyncio.timeout(10):
        while not (asked := await done(ann, "GET", f"/sessions/{main.pk}/approvals")):
            await asyncio.sleep(0.02)
    await done(ann, "POST", f"/approvals/{asked[0]['id']}", {"decision": "allow-once"})
    await idle(main)
    assert ran == ["change"]


async def test_an_ordinary_fork_of_a_side_is_lifted(ann, side, tools):
    ran, _ = tools
    branch = await fork(ann, side, side=False)
    first = (await own(ann, branch))[0]
    assert (form(first), ev.text_of(first["data"])) == ("lift", frame.LIFT_TEXT)
    await say(ann, branch, "[[call:change {}]]")
    async with asyncio.timeout(10):
        while not (asked := await done(ann, "GET", f"/sessions/{branch.pk}/approvals")):
            await asyncio.sleep(0.02)
    await done(ann, "POST", f"/approvals/{asked[0]['id']}", {"decision": "allow-once"})
    await idle(branch)
    assert ran == ["change"]


async def test_sides_of_sides_see_root_middle_and_own(ann, main, side):
    inner = await fork(ann, side, text="deeper?")
    innermost = await fork(ann, inner, text="deepest?")
    found = [t for t in await texts(ann, innermost) if not t.startswith(("[", "You said"))]
    assert found == ["what shall we build?", "is there a risk?", "deeper?", "deepest?"]
    assert len([t for t in await texts(ann, innermost) if t == frame.ADVISOR_TEXT]) == 3


async def test_a_side_is_listed_found_renamed_and_archived(ann, main, side):
    await done(ann, "PATCH", f"/sessions/{side.pk}", {"title": "Zebra risks"})
    found = (await done(ann, "GET", "/sessions?q=zebra"))["sessions"]
    assert {s["id"] for s in found} == {side.pk, main.pk}
    [row] = [s for s in found if s["id"] == side.pk]
    assert (row["kind"], row["parentSession"], row["title"]) == ("side", main.log_id, "Zebra risks")
    await done(ann, "PATCH", f"/sessions/{side.pk}", {"archived": True})
    assert side.pk not in {s["id"] for s in (await done(ann, "GET", "/sessions"))["sessions"]}
    assert (await done(ann, "GET", f"/sessions/{main.pk}"))["title"] == "Main"


async def test_a_side_survives_a_restart(ann, main, side):
    before = await events(ann, side)
    await runner.stop()
    await runner.start()
    assert await events(ann, side) == before
    await said(ann, side, "still there?")
    assert (await texts(ann, side))[-2:] == ["still there?", "You said: still there?"]
    status, _ = await ann.call("POST", f"/sessions/{side.pk}/merge")
    assert status == 200


async def test_a_promoted_side_acts_and_still_merges(ann, main, side, tools):
    ran, _ = tools
    await done(ann, "POST", f"/sessions/{side.pk}/promote")
    last = (await own(ann, side))[-1]
    assert (form(last), last["surfaceOp"]) == ("promotion", "append")
    await say(ann, side, "[[call:change {}]]")
    async with asyncio.timeout(10):
        while not (asked := await done(ann, "GET", f"/sessions/{side.pk}/approvals")):
            await asyncio.sleep(0.02)
    await done(ann, "POST", f"/approvals/{asked[0]['id']}", {"decision": "allow-once"})
    await idle(side)
    assert ran == ["change"]
    assert (await ann.call("POST", f"/sessions/{side.pk}/merge"))[0] == 200
    assert len(await notes_in(ann, main)) == 1


async def test_its_title_is_its_own(ann, main):
    child = await fork(ann, main)
    assert (await done(ann, "GET", f"/sessions/{child.pk}"))["title"] == ""
    await said(ann, child, "what is the risk?")
    assert (await done(ann, "GET", f"/sessions/{child.pk}"))["title"] == "what is the risk?"
    await done(ann, "PATCH", f"/sessions/{main.pk}", {"title": "Renamed"})
    assert (await done(ann, "GET", f"/sessions/{child.pk}"))["title"] == "what is the risk?"


# --- merge back ---


async def test_when_a_merge_is_allowed(ann, main, side):
    merge = f"/sessions/{side.pk}/merge"
    fresh = await fork(ann, main)
    assert await refusal(ann, "POST", f"/sessions/{fresh.pk}/merge") == (409, "nothing_new")
    await running_parent(ann, side)
    assert await refusal(ann, "POST", merge) == (409, "turn_open")
    assert (await done(ann, "GET", f"/sessions/{side.pk}/side"))["whyNot"]["code"] == "turn_open"
    await done(ann, "POST", f"/sessions/{side.pk}/stop")
    await idle(side)
    assert (await ann.call("POST", merge))[0] == 200
    shown = await done(ann, "GET", f"/sessions/{side.pk}/side")
    assert (shown["mergeable"], shown["whyNot"]["code"]) == (False, "nothing_new")


async def test_through_seq_and_the_kept_draft(ann, side, provider):
    draft = await done(ann, "POST", f"/sessions/{side.pk}/handback")
    ends = [e["seq"] for e in await own(ann, side) if e["type"] == "turn/end"]
    assert (draft["throughSeq"], len(ends)) == (ends[0], 2)
    asked = len(provider.bodies)
    assert await done(ann, "POST", f"/sessions/{side.pk}/handback") == draft
    assert len(provider.bodies) == asked
    await said(ann, side, "one more")
    again = await done(ann, "POST", f"/sessions/{side.pk}/handback")
    assert again["throughSeq"] > draft["throughSeq"]
    assert again["text"] != draft["text"]


async def test_the_side_is_asked_in_a_turn_of_its_own(ann, side, provider):
    await done(ann, "POST", f"/sessions/{side.pk}/merge")
    turn = [e for e in await own(ann, side) if e["type"] == "turn/start"][-1]["data"]["turn"]
    at = next(e["seq"] for e in await own(ann, side) if e["type"] == "turn/start" and e["data"]["turn"] == turn)
    request = next(e for e in await events(ann, side, at) if e["type"].endswith("/message"))
    assert form(request) == "handback-request"
    text = ev.text_of(request["data"])
    assert all(part in text for part in ("Conclusion", "Evidence", "(turn 2)", "Caveats", "Next step"))
    assert [e["type"] for e in await own(ann, side)].count("user/message") == 1


async def test_a_second_merge_asks_for_what_is_new(ann, main, side):
    await done(ann, "POST", f"/sessions/{side.pk}/merge")
    await said(ann, side, "and another thing?")
    await done(ann, "POST", f"/sessions/{side.pk}/merge")
    asked = [ev.text_of(e["data"]) for e in await own(ann, side) if form(e) == "handback-request"]
    assert [frame.AGAIN_TEXT in text for text in asked] == [False, True]
    assert len(await notes_in(ann, main)) == 2


@pytest.mark.parametrize("cap", [200, 2000])
async def test_the_cap_holds_for_drafts_and_for_written_notes(ann, main, side, provider, settings, cap):
    settings.SIDECHAT_HANDBACK_MAX_CHARS = cap
    provider.handback = "A sentence of this note. " * 500
    drafted = await done(ann, "POST", f"/sessions/{side.pk}/merge")
    written = await done(ann, "POST", f"/sessions/{side.pk}/merge", {"text": "👩‍👩‍👧‍👦" * 1000})
    assert drafted["truncated"] and written["truncated"]
    for note in await note_events(ann, main):
        text = ev.text_of(note["data"])
        assert len(text) <= cap and text.endswith("[…]") and note["data"]["source"]["truncated"]
    first, second = (ev.text_of(n["data"]).split("\n\n", 1)[1] for n in await note_events(ann, main))
    assert first.endswith("note. […]")
    assert set(second.removesuffix(" […]").split("👩‍👩‍👧‍👦")) == {""}


async def test_review_first_changes_nothing_in_the_parent(ann, main, side):
    before = await events(ann, main)
    draft = await done(ann, "POST", f"/sessions/{side.pk}/handback")
    assert await events(ann, main) == before
    merged = await done(ann, "POST", f"/sessions/{side.pk}/merge", {"text": draft["text"] + " And mind the gap."})
    assert merged["edited"]
    [note] = await notes_in(ann, main)
    assert note["source"]["edited"] and ev.text_of(note).endswith("And mind the gap.")


async def test_exactly_one_sourced_message_enters(ann, main, side, provider):
    provider.handback = "There is one risk."
    before = await events(ann, main)
    merged = await done(ann, "POST", f"/sessions/{side.pk}/merge")
    [note] = (await events(ann, main))[len(before) :]
    assert (note["type"], note["surfaceOp"], note["seq"]) == ("context/message", "append", merged["seq"])
    through = next(e["seq"] for e in await own(ann, side) if e["type"] == "turn/end")
    assert note["data"]["source"] == {
        "kind": "plugin", "plugin": "sidechat", "form": "handback", "session": side.log_id, "throughSeq": through,
        "truncated": False, "edited": False,
    }  # fmt: skip
    first, _, rest = ev.text_of(note["data"]).partition("\n\n")
    assert "\n" not in first and "Doubts" in first and "advice" in first.lower()
    assert rest == "There is one risk."


async def test_the_parents_next_request_has_the_note_at_its_place(ann, main, side):
    await done(ann, "POST", f"/sessions/{side.pk}/merge")
    [note] = await notes_in(ann, main)
    await said(ann, main, "go on")
    sent = [m["content"] for m in (await body_of(ann, main))["messages"]]
    assert sent[-2:] == [ev.text_of(note), "go on"]
    logged = [ev.text_of(e["data"]) for e in await events(ann, main) if e["type"].split("/")[0] in ("user", "context")]
    assert logged[-2:] == sent[-2:]


async def test_a_running_parent_gets_it_before_the_queue(ann, main, side):
    await running_parent(ann, main)
    await say(ann, main, "queued")
    status, pending = await ann.call("POST", f"/sessions/{side.pk}/merge", {"text": "Wait."})
    assert status == 202
    [row] = await merges_of(ann, side)
    assert (row["id"], row["state"]) == (pending["merge"], "pending")
    await idle(main)
    log = await events(ann, main)
    [note] = [e for e in log if form(e) == "handback"]
    at = log.index(note)
    assert (log[at - 1]["type"], log[at + 1]["type"]) == ("turn/end", "turn/start")
    assert ev.text_of(next(e for e in log[at:] if e["type"] == "user/message")["data"]) == "queued"


async def test_into_the_running_turn_after_all_results(ann, main, side, tools):
    ran, go = tools
    go.clear()
    await say(ann, main, "[[call:look {}]][[call:look {}]]")
    async with asyncio.timeout(10):
        while len(ran) < 2:
            await asyncio.sleep(0.02)
    status, _ = await ann.call("POST", f"/sessions/{side.pk}/merge", {"text": "The left one.", "steer": True})
    assert status == 202
    go.set()
    await idle(main)
    [note] = await notes_in(ann, main)
    sent = (await body_of(ann, main))["messages"]
    assert [m["role"] for m in sent[-4:]] == ["assistant", "tool", "tool", "user"]
    assert sent[-1]["content"] == ev.text_of(note)


async def test_same_content_same_result_other_text_other_note(ann, main, side):
    merge = f"/sessions/{side.pk}/merge"
    first = await ann.call("POST", merge)
    assert await ann.call("POST", merge) == first
    mine = await ann.call("POST", merge, {"text": "Mine."})
    assert await ann.call("POST", merge, {"text": " Mine. "}) == mine
    other = await ann.call("POST", merge, {"text": "Other."})
    assert len({answer[1]["merge"] for answer in (first, mine, other)}) == 3
    assert len(await notes_in(ann, main)) == 3


async def test_the_stored_event_says_everything(ann, main, side):
    merged = await done(ann, "POST", f"/sessions/{side.pk}/merge", {"text": "**Bold** advice."})
    [note] = await note_events(ann, main)
    [row] = await merges_of(ann, side)
    [derived] = (await done(ann, "GET", f"/sessions/{side.pk}/side"))["merged"]
    assert note["seq"] == merged["seq"] == row["seq"] == derived["seq"]
    assert derived["time"] == note["time"]
    assert "merged" not in str(await own(ann, side)).lower()


async def test_an_imitated_note_is_no_note(ann, main, side):
    merged = await done(ann, "POST", f"/sessions/{side.pk}/merge", {"text": "Real."})
    [note] = await notes_in(ann, main)
    await said(ann, main, ev.text_of(note))
    assert len(await notes_in(ann, main)) == 1
    fake = next(e for e in await events(ann, main, merged["seq"]) if e["type"] == "user/message")
    assert fake["data"]["source"] == {"kind": "user"}
    retract = await refusal(ann, "POST", f"/sessions/{main.pk}/retract", {"seq": fake["seq"]})
    assert retract == (409, "not_on_surface")


async def test_retract_replaces_one_event_and_the_log_keeps_both(ann, main, side):
    merged = await done(ann, "POST", f"/sessions/{side.pk}/merge", {"text": "Wrong advice."})
    before = await events(ann, main)
    event = await done(ann, "POST", f"/sessions/{main.pk}/retract", {"seq": merged["seq"]})
    assert await events(ann, main) == [*before, event]
    assert (event["data"]["source"]["form"], event["sourceEventSeqs"]) == ("retraction", [merged["seq"]])
    assert event["surfaceOp"] == {"op": "replace", "start": merged["seq"], "end": merged["seq"]}
    assert ev.text_of(event["data"]) == frame.RETRACTION_TEXT
    await said(ann, main, "go on")
    assert "Wrong advice" not in json.dumps(await body_of(ann, main))
    [derived] = (await done(ann, "GET", f"/sessions/{side.pk}/side"))["merged"]
    assert derived["retracted"]


async def test_any_number_of_merges_from_any_number_of_sides(ann, main, side):
    other = await fork(ann, main, text="another?")
    for n in range(2):
        for one in (side, other):
            await said(ann, one, f"more {n}")
            await done(ann, "POST", f"/sessions/{one.pk}/merge")
    assert [n["source"]["session"] for n in await notes_in(ann, main)] == [side.log_id, other.log_id] * 2


async def test_an_archived_parent_takes_a_note(ann, main, side):
    await done(ann, "PATCH", f"/sessions/{main.pk}", {"archived": True})
    assert (await ann.call("POST", f"/sessions/{side.pk}/merge"))[0] == 200


async def test_a_parent_that_takes_none_says_why_and_the_note_can_be_copied(ann, main, side):
    await sync_to_async(Session.objects.filter(pk=main.pk).update)(read_only=True)
    assert await refusal(ann, "POST", f"/sessions/{side.pk}/merge") == (409, "parent_read_only")
    assert (await done(ann, "POST", f"/sessions/{side.pk}/handback"))["text"]
    await sync_to_async(Session.objects.filter(pk=main.pk).update)(read_only=False)
    await done(ann, "DELETE", f"/sessions/{main.pk}?sides=keep")
    assert await refusal(ann, "POST", f"/sessions/{side.pk}/merge") == (409, "parent_gone")
    await said(ann, side, "and now?")
    assert (await done(ann, "POST", f"/sessions/{side.pk}/handback"))["text"]


# --- delete ---


async def test_deleting_asks_about_sides(ann, main, side):
    assert await refusal(ann, "DELETE", f"/sessions/{main.pk}") == (409, "has_sides")
    assert (await done(ann, "GET", f"/sessions/{side.pk}"))["id"] == side.pk


async def test_kept_sides_keep_their_history(ann, main, side):
    inner = await fork(ann, side, text="deeper?")
    before = await events(ann, side), await texts(ann, inner)
    assert await done(ann, "DELETE", f"/sessions/{main.pk}?sides=keep") == {"deleted": [main.pk], "kept": [side.pk]}
    assert (await events(ann, side), await texts(ann, inner)) == before
    await said(ann, side, "go on")
    assert (await done(ann, "GET", f"/sessions/{side.pk}"))["lastTurn"]["reason"] == {"kind": "completed"}


async def test_running_sides_are_stopped_and_deleted(ann, main, side, provider):
    await running_parent(ann, side)
    gone = await done(ann, "DELETE", f"/sessions/{main.pk}?sides=delete")
    assert set(gone["deleted"]) == {main.pk, side.pk}
    assert await refusal(ann, "GET", f"/sessions/{side.pk}") == (404, "not_found")
    async with asyncio.timeout(10):
        while side.pk in runner.here()._runs:
            await asyncio.sleep(0.02)


# --- accounting ---


async def test_a_fresh_fork_has_spent_nothing(ann, main):
    child = await fork(ann, main)
    shown, parent = await done(ann, "GET", f"/sessions/{child.pk}"), await done(ann, "GET", f"/sessions/{main.pk}")
    assert shown["usage"] == {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "reasoningTokens": 0}
    assert shown["context"]["used"] == parent["context"]["used"] > 0


async def test_usage_is_counted_once(ann, main, side):
    before = (await done(ann, "GET", f"/sessions/{main.pk}"))["usage"]
    await said(ann, side, "and more?")
    await done(ann, "POST", f"/sessions/{side.pk}/merge")
    assert (await done(ann, "GET", f"/sessions/{main.pk}"))["usage"] == before
    shown = (await done(ann, "GET", f"/sessions/{side.pk}"))["usage"]
    listed = await done(ann, "GET", f"/sessions/{side.pk}/requests")
    assert len(listed) == 3
    assert shown["outputTokens"] == sum(r["usage"]["outputTokens"] for r in listed)
    assert shown["cacheReadTokens"] == sum(r["usage"].get("cacheReadTokens", 0) for r in listed)
