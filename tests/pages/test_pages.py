"""The pages: one address, one view; as a page, as a fragment, and after every action."""

import json

import pytest
from django.contrib.auth.models import User
from django.utils.html import escape

from sidechat_web.core import events as ev
from sidechat_web.runtime import commands, queue
from sidechat_web.runtime.sidechat import merge_back, side
from sidechat_web.storage import reading
from sidechat_web.storage.models import QueueItem, Session

from .conftest import asked, said, write


def text(response):
    return response.content.decode()


def typed(session):
    return [item.text for item in queue.typed(session)]


# -- reading -------------------------------------------------------------------------------------


def test_first_visit_teaches(client):
    page = text(client.get("/", follow=True))
    assert "Three things to try" in page and "Connect a better model" not in page


@pytest.mark.parametrize("path", ["/", "/accounts/login/", "/admin/login/"])
def test_every_page_has_the_icon(client, settings, path):
    settings.SIDECHAT_LOCAL_MODE = True
    assert '<link rel="icon" href="data:image/svg' in text(client.get(path, follow=True))


def test_icon_is_found_where_browsers_look(client):
    assert client.get("/favicon.ico")["Location"] == "/static/icon.svg"


def test_home_is_the_newest_session(client, session, aside):
    response = client.get("/")
    assert response["Location"] == f"/s/{session.pk}/?side={aside.pk}"


def test_page_has_tree_main_and_side(client, session, aside):
    page = text(client.get(f"/s/{session.pk}/?side={aside.pk}"))
    assert f'id="row-{aside.pk}"' in page
    assert "It names <strong>file</strong> and line." in page
    assert "Because pairs stay whole." in page
    assert "Knows everything up to turn 2." in page and "2 inherited turns" in page


def test_side_alone_shows_its_parent_too(client, session, aside):
    response = client.get(f"/s/{aside.pk}/")
    assert response["Location"] == f"/s/{session.pk}/?side={aside.pk}"


def test_side_of_a_side_stands_beside_it(client, aside):
    deeper = side.open_side(aside, title="deeper")
    page = text(client.get(f"/s/{aside.pk}/?side={deeper.pk}"))
    assert f'data-session="{aside.pk}" data-seq' in page and f'data-session="{deeper.pk}" data-seq' in page


def test_draft_makes_no_session(client, session):
    before = Session.objects.count()
    page = text(client.get(f"/s/{session.pk}/?draft=side"))
    assert f'action="/s/{session.pk}/side"' in page and "Knows everything up to turn 2." in page
    assert Session.objects.count() == before


def test_draft_says_that_a_running_turn_is_excluded(client, session):
    write(session, asked(3, "Go on"))
    page = text(client.get(f"/s/{session.pk}/?draft=side"))
    assert "Knows everything up to turn 2." in page and "Turn 3 is running and is not included." in page


def test_draft_at_an_answer_knows_its_turn(client, session):
    assert "Knows everything up to turn 1." in text(client.get(f"/s/{session.pk}/?draft=side&at=5"))


def test_side_says_that_main_moved_on(client, session, aside):
    write(session, said(3, "More", "Yes."))
    assert "Main is 1 turn ahead." in text(client.get(f"/s/{session.pk}/?side={aside.pk}"))


def test_fragments_are_parts_of_the_page(htmx, session, aside):
    both = htmx.get(f"/s/{session.pk}/?side={aside.pk}", headers={"HX-Target": "panes"})
    assert "<html" not in text(both) and 'id="main"' in text(both) and 'id="side"' in text(both)
    here = {"HX-Target": "side", "HX-Current-URL": f"http://testserver/s/{session.pk}/"}
    panel = htmx.get(f"/s/{session.pk}/?side={aside.pk}", headers=here)
    assert 'id="main"' not in text(panel) and "Because pairs stay whole." in text(panel)


def test_panel_of_another_session_brings_its_main_along(htmx, session, aside):
    elsewhere = {"HX-Target": "side", "HX-Current-URL": "http://testserver/new/"}
    response = htmx.get(f"/s/{session.pk}/?side={aside.pk}", headers=elsewhere)
    assert response["HX-Retarget"] == "#panes" and 'id="main"' in text(response)


def test_history_restore_gets_the_whole_page(htmx, session):
    page = text(htmx.get(f"/s/{session.pk}/", headers={"HX-History-Restore-Request": "true"}))
    assert "<html" in page and 'id="rows"' in page


def test_older_turns_load_in_whole_turns(htmx, client, owner):
    long = commands.create(owner, title="Long")
    write(long, *(said(n, f"question {n}", f"answer {n}") for n in range(1, 41)))
    page = text(client.get(f"/s/{long.pk}/"))
    assert "question 40" in page and "question 20<" not in page
    first = next(n for n in range(1, 41) if f"question {n}<" in page)
    older = page.split('hx-get="/s/')[1:]
    link = next(part.split('"')[0] for part in older if "/older?" in part)
    part = text(htmx.get(f"/s/{link}"))
    assert f"question {first - 1}<" in part and f"question {first}<" not in part


def test_inherited_history_of_a_side(htmx, aside):
    part = text(htmx.get(f"/s/{aside.pk}/inherited"))
    assert "What is a refusal?" in part and "Why cut there?" not in part


def test_text_of_a_message_is_what_was_written(client, session):
    response = client.get(f"/s/{session.pk}/text/4")
    assert response["Content-Type"].startswith("text/plain") and text(response) == "It names **file** and line."


def test_reading_marks_seen(client, session):
    commands.set_flags(session, unread=True)
    client.get(f"/s/{session.pk}/")
    session.refresh_from_db()
    assert not session.unread


def test_hostile_titles_stay_text(client, session, aside):
    for one in (session, aside):
        commands.rename(one, "<img src=x onerror=alert(1)>")
    assert "<img" not in text(client.get(f"/s/{session.pk}/?side={aside.pk}"))


# -- the tree ------------------------------------------------------------------------------------


def test_tree_nests_sides_and_searches_titles(htmx, session, aside, owner):
    commands.create(owner, title="Other thing")
    tree = text(htmx.get("/sessions/"))
    assert tree.index("Other thing") < tree.index("Port the reader") < tree.index("why cut there?")
    found = text(htmx.get("/sessions/?q=other"))
    assert "Other thing" in found and "Port the reader" not in found
    assert escape("Nothing was said, and no session is called, “zzz”.") in text(htmx.get("/sessions/?q=zzz"))


def test_tree_rolls_the_loudest_state_up(htmx, session, aside):
    write(aside, asked(4, "Once more"))
    row = text(htmx.get("/sessions/")).split(f'id="row-{session.pk}"')[1].split("</a>")[0]
    assert "dot running" in row


def test_tree_keeps_what_others_own_out(stranger, session):
    assert "Port the reader" not in text(stranger.get("/sessions/"))


# -- sending -------------------------------------------------------------------------------------


def test_first_message_makes_a_session(client):
    response = client.post("/new/", {"text": "Hello\r\nthere"})
    made = Session.objects.get()
    assert response["Location"] == f"/s/{made.pk}/" and typed(made) == ["Hello\nthere"]


def test_send_is_accepted_once_for_a_key(client, session):
    for _ in range(3):
        client.post(f"/s/{session.pk}/send", {"text": "Once", "key": "k1"})
    client.post(f"/s/{session.pk}/send", {"text": "Again", "key": "k2"})
    assert typed(session) == ["Once", "Again"]


def test_send_by_htmx_gives_the_next_key(htmx, session):
    response = htmx.post(f"/s/{session.pk}/send", {"text": "Hi", "key": "k1"})
    assert response.status_code == 200 and response.content == b""
    assert json.loads(response["HX-Trigger"])["sidechat:sent"]["key"] not in ("", "k1")


@pytest.mark.parametrize("sent", ["", "  \n "])
def test_empty_message_is_refused_where_it_was_written(htmx, client, session, sent):
    assert text(htmx.post(f"/s/{session.pk}/send", {"text": sent})).strip() == "Write something first."
    page = client.post(f"/s/{session.pk}/send", {"text": sent})
    assert page.status_code == 422 and "Write something first." in text(page)


def test_refused_text_stays_in_the_composer(client, session, settings):
    settings.SIDECHAT_OPENAI_BASE_URL = ""
    settings.SIDECHAT_LOCAL_MODEL = False
    page = client.post(f"/s/{session.pk}/send", {"text": "Keep this text"})
    assert page.status_code == 422 and "Keep this text</textarea>" in text(page) and "not configured" in text(page)


def test_steering_is_kept_as_such(client, session):
    client.post(f"/s/{session.pk}/send", {"text": "Now", "mode": "steer"})
    assert queue.typed(session).get().mode == QueueItem.Mode.STEER


def test_stop_asks_the_turn_to_end(client, session):
    write(session, asked(3, "Go on"))
    client.post(f"/s/{session.pk}/stop")
    session.refresh_from_db()
    assert session.stop_requested


def test_queued_messages_can_be_changed_and_taken_back(client, htmx, session):
    write(session, asked(3, "Go on"))
    item = commands.say(session, "Later")
    client.post(f"/s/{session.pk}/queue/{item.pk}", {"text": "Later, please"})
    assert typed(session) == ["Later, please"]
    response = htmx.post(f"/s/{session.pk}/queue/{item.pk}/remove")
    returned = json.loads(response["HX-Trigger"])["sidechat:returned"]
    assert returned == {"session": session.pk, "text": "Later, please"} and typed(session) == []


def test_message_that_has_started_cannot_be_changed(htmx, session):
    item = commands.say(session, "Now")
    queue.started(item, 5)
    response = htmx.post(f"/s/{session.pk}/queue/{item.pk}", {"text": "No"})
    assert response.status_code == 422 and "already started" in text(response)


# -- sides ---------------------------------------------------------------------------------------


def test_one_send_makes_one_side(client, session):
    for _ in range(3):
        response = client.post(f"/s/{session.pk}/side", {"text": "Why?", "key": "k1"})
    [child] = Session.objects.filter(parent=session)
    assert response["Location"] == f"/s/{session.pk}/?side={child.pk}" and typed(child) == ["Why?"]


def test_new_side_opens_in_the_panel_and_marks_where_it_left(htmx, session):
    response = htmx.post(f"/s/{session.pk}/side", {"text": "Why?", "key": "k1"})
    [child] = Session.objects.filter(parent=session)
    assert response["HX-Retarget"] == "#side" and response["HX-Push-Url"] == f"/s/{session.pk}/?side={child.pk}"
    assert f'<li hx-swap-oob="true" class="item turn-end" id="{session.pk}-t2-end"' in text(response)
    assert "1 side from here" in text(response)


@pytest.mark.parametrize("prefix", ["/btw ", "/side\n", "  /BTW "])
def test_aside_in_main_opens_a_side_while_main_runs(client, session, prefix):
    write(session, asked(3, "Go on"))
    client.post(f"/s/{session.pk}/send", {"text": f"{prefix}what is that?", "key": "k1"})
    [child] = Session.objects.filter(parent=session)
    assert typed(child) == ["what is that?"] and typed(session) == []


def test_aside_without_a_question_opens_the_empty_panel(client, session):
    response = client.post(f"/s/{session.pk}/send", {"text": "/btw"})
    assert response["Location"] == f"/s/{session.pk}/?draft=side"
    assert not Session.objects.filter(parent=session).exists()


def test_side_from_the_open_turn_is_refused_with_the_reason(htmx, session):
    write(session, asked(3, "Go on"))
    response = htmx.post(f"/s/{session.pk}/side", {"text": "Why?", "at": session.next_seq - 1})
    assert response.status_code == 422 and "still running" in text(response)


def test_fork_is_an_ordinary_session(client, session):
    response = client.post(f"/s/{session.pk}/fork")
    child = Session.objects.get(parent=session)
    assert child.kind == "fork" and response["Location"] == f"/s/{child.pk}/"
    assert "Forked here from" in text(client.get(f"/s/{child.pk}/"))


# -- merging -------------------------------------------------------------------------------------


def note_of(session):
    return [e for e in reading.events(session) if e.type == ev.CONTEXT_MESSAGE]


def test_merge_asks_the_side_for_its_note(client, aside):
    client.post(f"/s/{aside.pk}/merge")
    client.post(f"/s/{aside.pk}/merge")
    [merge] = merge_back.merges_of(aside)
    assert merge["state"] == "drafting"
    page = text(client.get(f"/s/{aside.pk}/", follow=True))
    assert "The side is writing its note." in page and "A note is on its way" in page


def test_merged_note_is_a_card_in_main_and_a_line_at_the_side(client, session, aside):
    client.post(f"/s/{aside.pk}/merge", {"text": "**Pairs** stay whole.", "written": "1"})
    session.refresh_from_db()
    [note] = note_of(session)
    page = text(client.get(f"/s/{session.pk}/?side={aside.pk}"))
    assert "Handback from" in page and "<strong>Pairs</strong> stay whole." in page and "edited by you" in page
    assert f'Merged into <a href="/s/{session.pk}/?side={aside.pk}#{session.pk}-e{note.seq}">' in page
    assert "There is nothing new since the last merge." in page


def test_merge_that_is_not_allowed_is_visible_and_says_why(client, htmx, session):
    fresh = side.open_side(session, title="fresh")
    page = text(client.get(f"/s/{session.pk}/?side={fresh.pk}"))
    assert "disabled" in page and "There is nothing to merge yet: ask the side something first." in page
    response = htmx.post(f"/s/{fresh.pk}/merge")
    assert response.status_code == 422 and "nothing to merge yet" in text(response)
    assert client.post(f"/s/{fresh.pk}/merge").status_code == 422


def test_note_waits_while_main_runs_and_can_be_cancelled(client, session, aside):
    write(session, asked(3, "Go on"))
    client.post(f"/s/{aside.pk}/merge", {"text": "A note.", "written": "1"})
    page = text(client.get(f"/s/{session.pk}/"))
    assert "Its note waits for this turn to end." in page
    [merge] = merge_back.merges_of(aside)
    client.post(f"/s/{session.pk}/merges/{merge['id']}/cancel")
    assert merge_back.merges_of(aside)[0]["state"] == "cancelled"
    assert "waits for this turn" not in text(client.get(f"/s/{session.pk}/"))


def test_review_shows_the_draft_with_its_count(client, aside):
    client.post(f"/s/{aside.pk}/review")
    assert "The side is writing its note" in text(client.get(f"/s/{aside.pk}/review"))
    request = queue.pending(aside).get()
    queue.started(request, 0)
    write(aside, [ev.turn_start(4), queue.draft_of(request)], said(4, "x", "The **draft**.")[3:])
    page = text(client.get(f"/s/{aside.pk}/review"))
    assert "The **draft**.</textarea>" in page and "<span>14</span> of" in page


def test_own_note_needs_no_draft(client, aside):
    page = text(client.get(f"/s/{aside.pk}/review?own=1"))
    assert '<textarea id="note-text"' in page and "<span>0</span> of" in page


def test_retract_marks_the_card_and_keeps_it(client, htmx, session, aside):
    merge_back.merge(aside, text="A note.")
    session.refresh_from_db()
    [note] = note_of(session)
    assert htmx.post(f"/s/{session.pk}/retract", {"seq": note.seq}).status_code == 200
    page = text(client.get(f"/s/{session.pk}/"))
    assert "<strong>retracted</strong>" in page and "Note retracted." in page and "A note." in page
    again = htmx.post(f"/s/{session.pk}/retract", {"seq": note.seq})
    assert again.status_code == 422 and "not a note that the model still sees" in text(again)


def test_retract_while_main_runs_is_refused_with_the_reason(client, session, aside):
    merge_back.merge(aside, text="A note.")
    write(session, asked(3, "Go on"))
    [note] = note_of(session)
    page = client.post(f"/s/{session.pk}/retract", {"seq": note.seq})
    assert page.status_code == 422 and "retract the note when the turn has ended" in text(page)


def test_card_in_older_turns_knows_that_it_was_retracted(htmx, session, aside):
    merge_back.merge(aside, text="A note.")
    session.refresh_from_db()
    [note] = note_of(session)
    merge_back.retract(session, note.seq)
    part = text(htmx.get(f"/s/{session.pk}/older?before={note.seq + 1}"))
    assert "<strong>retracted</strong>" in part


def test_promoted_side_stands_alone_and_can_still_merge(client, aside):
    response = client.post(f"/s/{aside.pk}/promote")
    assert response["Location"] == f"/s/{aside.pk}/"
    page = client.get(f"/s/{aside.pk}/")
    assert page.status_code == 200 and "Merge back" in text(page) and "Promoted to an ordinary session." in text(page)


# -- settings and the end ------------------------------------------------------------------------


def test_settings_change_name_and_flags(client, session):
    client.post(f"/s/{session.pk}/settings", {"title": "New name", "pinned": "on"})
    session.refresh_from_db()
    assert (session.title, session.pinned, session.archived) == ("New name", True, False)
    page = client.post(f"/s/{session.pk}/settings", {"title": ""})
    assert page.status_code == 422 and "A session needs a title." in text(page)


def test_delete_names_the_sides_and_asks(client, session, aside):
    assert "why cut there?" in text(client.get(f"/s/{session.pk}/delete"))
    undecided = client.post(f"/s/{session.pk}/delete")
    assert undecided.status_code == 422 and Session.objects.filter(deleted_at=None).count() == 2
    client.post(f"/s/{session.pk}/delete", {"sides": "keep"})
    page = client.get(f"/s/{aside.pk}/")
    assert page.status_code == 200 and "parent deleted" in text(page) and "2 inherited turns" in text(page)
    assert "What is a refusal?" in text(client.get(f"/s/{aside.pk}/inherited"))


def test_delete_everything(client, session, aside):
    client.post(f"/s/{session.pk}/delete", {"sides": "delete"})
    assert not Session.objects.filter(deleted_at=None).exists()


def test_mirrored_log_can_be_read_but_not_written(client, session):
    Session.objects.filter(pk=session.pk).update(read_only=True)
    page = text(client.get(f"/s/{session.pk}/"))
    assert "belongs to another program" in page and f'action="/s/{session.pk}/send"' not in page


def test_queued_messages_change_their_order(client, session):
    items = [commands.say(session, words) for words in ("one", "two", "three")]
    address = f"/s/{session.pk}/queue/{items[2].pk}"
    assert f'formaction="{address}" name="position" value="1"' in text(client.get(f"/s/{session.pk}/"))
    assert client.post(address, {"position": "1"}).status_code == 302
    assert typed(session) == ["one", "three", "two"]


# -- once more -----------------------------------------------------------------------------------


def test_retry_asks_again_in_a_fork(client, session):
    asked_at = next(e.seq for e in reading.events(session) if e.type == ev.USER_MESSAGE)
    page = text(client.get(f"/s/{session.pk}/"))
    assert f'formaction="/s/{session.pk}/retry/{asked_at}"' in page
    response = client.post(f"/s/{session.pk}/retry/{asked_at}")
    fork = Session.objects.get(parent=session, kind=Session.Kind.FORK)
    assert response["Location"] == f"/s/{fork.pk}/" and fork.own_from <= asked_at
    assert typed(fork) == [ev.text_of(reading.event(session, asked_at).data)]
    assert "from before that message" in text(client.get(response["Location"]))


def test_edited_message_is_sent_once(client, session):
    asked_at = next(e.seq for e in reading.events(session) if e.type == ev.USER_MESSAGE)
    assert "Edit and resend" in text(client.get(f"/s/{session.pk}/retry/{asked_at}"))
    for _ in range(2):
        client.post(f"/s/{session.pk}/retry/{asked_at}", {"text": "Another\r\nquestion", "key": "k"})
    [fork] = Session.objects.filter(parent=session, kind=Session.Kind.FORK)
    assert typed(fork) == ["Another\nquestion"]


def test_only_a_users_message_is_retried(client, session):
    assert client.post(f"/s/{session.pk}/retry/0").status_code == 404
    assert client.get(f"/s/{session.pk}/retry/999999").status_code == 404


# -- quotes --------------------------------------------------------------------------------------


def quoting(session, **more):
    answered = next(e.seq for e in reading.events(session) if e.type == ev.ASSISTANT_MESSAGE)
    return json.dumps([{"session": session.pk, "seq": answered, "text": "It names", "comment": "which?", **more}])


def test_quotes_reach_the_model_and_link_back(client, session):
    client.post(f"/s/{session.pk}/send", {"text": "", "quotes": quoting(session)})
    [said_so] = typed(session)
    assert said_so == "Quote 1:\n> It names\n\nComment on quote 1: which?"
    client.post(f"/s/{session.pk}/side", {"text": "and?", "quotes": quoting(session)})
    aside = Session.objects.filter(parent=session).get()
    assert typed(aside)[0].endswith("which?\n\nand?")


@pytest.mark.parametrize(
    "quotes",
    ["{", "5", '["x"]', "[{}]", '[{"session":"' + "x" * 26 + '","seq":"1","text":"t"}]']
    + [f'[{{"session":"{"x" * 26}","seq":1,"text":"{bad}"}}]' for bad in ("\\u0000", "\\ud800")]
    + ['[{"session":"\\u0000","seq":1,"text":"t"}]', "[" * 2000],
)
def test_broken_quotes_are_refused(client, session, quotes):
    response = client.post(f"/s/{session.pk}/send", {"text": "x", "quotes": quotes})
    assert response.status_code == 422 and "did not arrive whole" in text(response) and typed(session) == []


def test_what_cannot_be_read_cannot_be_quoted(stranger, session):
    own = commands.create(User.objects.get(username="bob"))
    response = stranger.post(f"/s/{own.pk}/send", {"text": "x", "quotes": quoting(session)})
    assert response.status_code == 404 and typed(own) == []


# -- commands in the composer --------------------------------------------------------------------


def test_rename_and_stop_by_command(client, session):
    client.post(f"/s/{session.pk}/send", {"text": "/rename  A better title"})
    client.post(f"/s/{session.pk}/send", {"text": "/compact"})
    session.refresh_from_db()
    assert session.title == "A better title" and session.compact_requested and typed(session) == []


def test_merge_by_command_writes_the_note_that_follows(client, session, aside):
    client.post(f"/s/{aside.pk}/send", {"text": "/merge Pairs stay whole."})
    [merge] = merge_back.merges_of(session)
    assert merge["state"] == "delivered" and typed(aside) == []


@pytest.mark.parametrize(("text_sent", "why"), [("/rename", "needs a title"), ("/model", "needs PROVIDER/MODEL")])
def test_incomplete_command_is_refused_and_stays_in_the_box(client, session, text_sent, why):
    response = client.post(f"/s/{session.pk}/send", {"text": text_sent})
    assert response.status_code == 422 and why in text(response) and f">{text_sent}</textarea>" in text(response)


@pytest.mark.parametrize("words", ["/etc/hosts is empty", "/compact this please", "/unknown", "a /stop"])
def test_what_only_looks_like_a_command_is_a_message(client, session, words):
    client.post(f"/s/{session.pk}/send", {"text": words})
    assert typed(session) == [words]


# -- renewal, and one note out of several sides --------------------------------------------------


def test_side_brings_in_what_main_did_since(client, session, aside):
    assert "Bring in what main did since" not in text(client.get(f"/s/{session.pk}/?side={aside.pk}"))
    write(session, said(3, "And after that?", "It says so."))
    assert "Bring in what main did since" in text(client.get(f"/s/{session.pk}/?side={aside.pk}"))
    response = client.post(f"/s/{aside.pk}/renew")
    newest = Session.objects.filter(parent=session).latest("created_at")
    assert response["Location"] == f"/s/{session.pk}/?side={newest.pk}" and newest.pk != aside.pk
    assert client.post(f"/s/{newest.pk}/renew").status_code == 422


def test_selected_sides_become_one_note(client, session, aside):
    other = side.open_side(session, title="another")
    page = text(client.get(f"/s/{session.pk}/merge-sides"))
    assert f'value="{aside.pk}"' in page and f'value="{other.pk}" disabled' in page
    assert "Choose at least one side." in text(client.post(f"/s/{session.pk}/merge-sides"))
    client.post(f"/s/{session.pk}/merge-sides", {"sides": [aside.pk]})
    [merge] = merge_back.merges_of(session)
    assert merge["side"] == aside.pk and merge["state"] == "drafting"
