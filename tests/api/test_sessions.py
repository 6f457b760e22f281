"""Sessions: making, listing, changing and deleting them."""

import pytest

from sidechat_web.runtime import commands
from sidechat_web.runtime.sidechat.side import open_side
from sidechat_web.storage.ids import new_id
from sidechat_web.storage.models import Session

from .conftest import refusal

pytestmark = pytest.mark.django_db


def test_session_is_made_with_what_was_asked_for(ann):
    answer = ann.post("/sessions", {"title": "Plans", "model": "custom/other", "system": "Be brief.", "cwd": "/srv"})
    assert answer.status_code == 201
    made = answer.json()
    assert (made["title"], made["model"], made["cwd"], made["kind"]) == ("Plans", "custom/other", "/srv", "main")
    assert (made["status"], made["promoted"], made["logId"]) == ("idle", False, made["id"])
    assert made["usage"] == {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "reasoningTokens": 0}
    assert ann.get(f"/sessions/{made['id']}").json() == made


def test_session_needs_nothing(ann):
    for body in (None, {}, {"title": None, "model": None}):
        made = ann.post("/sessions", body)
        assert made.status_code == 201
        assert made.json()["model"] == "custom/fake"


def test_absent_fields_are_omitted_not_null(ann):
    made = ann.post("/sessions").json()
    assert None not in made.values()
    assert not {"parentSession", "seedLength", "lastTurn", "cwd"} & made.keys()


def test_session_shows_its_last_turn(ann, session):
    shown = ann.get(f"/sessions/{session.pk}").json()
    assert shown["lastTurn"] == {"turn": 2, "reason": {"kind": "completed"}}
    assert shown["usage"]["inputTokens"] == 20


@pytest.mark.parametrize(
    "body",
    [
        {"titel": "typo"},
        {"title": 7},
        {"title": "x" * 201},
        {"title": "nul\x00"},
        {"cwd": "relative"},
        {"cwd": 1},
        {"model": ["a"]},
        {"system": {}},
        [],
        "text",
        7,
    ],
)
def test_bad_session_is_refused(ann, body):
    assert refusal(ann.post("/sessions", body)) == (422, "invalid")
    assert not Session.objects.exists()


def test_unknown_model_is_refused(ann, settings):
    settings.SIDECHAT_OPENAI_BASE_URL = ""
    assert refusal(ann.post("/sessions", {"model": "nobody/nothing"})) == (422, "no_model")


def test_change_is_all_or_nothing(ann, session):
    answer = ann.patch(f"/sessions/{session.pk}", {"title": "New", "archived": True, "pinned": True})
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["title"], shown["archived"], shown["pinned"]) == ("New", True, True)
    assert refusal(ann.patch(f"/sessions/{session.pk}", {"title": "  "}))[0] == 422
    assert refusal(ann.patch(f"/sessions/{session.pk}", {"title": "Newer", "archived": "yes"})) == (422, "invalid")
    assert ann.get(f"/sessions/{session.pk}").json() == shown


def test_model_can_be_changed(ann, session):
    assert ann.patch(f"/sessions/{session.pk}", {"model": "custom/two"}).json()["model"] == "custom/two"


def test_delete_asks_about_sides(ann, session):
    side = open_side(session)
    assert refusal(ann.delete(f"/sessions/{session.pk}")) == (409, "has_sides")
    assert refusal(ann.delete(f"/sessions/{session.pk}?sides=perhaps")) == (422, "invalid")
    kept = ann.delete(f"/sessions/{session.pk}?sides=keep")
    assert (kept.status_code, kept.json()) == (200, {"deleted": [session.pk], "kept": [side.pk]})
    assert ann.get(f"/sessions/{session.pk}").status_code == 404
    assert ann.get(f"/sessions/{side.pk}/events?limit=1000").json()["events"][-1]["type"] == "context/message"


def test_delete_with_sides(ann, session):
    side = open_side(session)
    assert set(ann.delete(f"/sessions/{session.pk}?sides=delete").json()["deleted"]) == {session.pk, side.pk}
    assert ann.get("/sessions").json() == {"sessions": [], "next": None}


def test_list_is_flat_and_newest_first(ann, owner):
    ids = [commands.create(owner).pk for _ in range(3)]
    for place, pk in enumerate(ids):
        Session.objects.filter(pk=pk).update(updated_at=1000 + place)
    assert [s["id"] for s in ann.get("/sessions").json()["sessions"]] == ids[::-1]


def test_pages_hold_each_session_once(ann, owner):
    made = {commands.create(owner).pk for _ in range(7)}
    Session.objects.update(updated_at=5)  # all at the same time: the id decides
    seen, cursor = [], ""
    while cursor is not None:
        page = ann.get(f"/sessions?limit=3&cursor={cursor}").json()
        seen += [s["id"] for s in page["sessions"]]
        cursor = page["next"]
    assert len(seen) == 7
    assert set(seen) == made


def test_new_activity_does_not_disturb_the_next_page(ann, owner):
    ids = [commands.create(owner).pk for _ in range(4)]
    for place, pk in enumerate(ids):
        Session.objects.filter(pk=pk).update(updated_at=place)
    first = ann.get("/sessions?limit=2").json()
    Session.objects.filter(pk=ids[3]).update(updated_at=99)
    rest = ann.get(f"/sessions?limit=2&cursor={first['next']}").json()
    assert [s["id"] for s in rest["sessions"]] == [ids[1], ids[0]]


def test_search_brings_the_parents_of_what_it_finds(ann, session):
    middle = open_side(session, title="Locks")
    open_side(middle, title="Needle in a haystack")
    open_side(session, title="Other")
    found = ann.get("/sessions?q=haystack+needle").json()["sessions"]
    assert {s["title"] for s in found} == {"Needle in a haystack", "Locks", "Cache design"}


def test_archived_sessions_are_listed_apart(ann, owner):
    old, new = commands.create(owner), commands.create(owner)
    ann.patch(f"/sessions/{old.pk}", {"archived": True})
    assert [s["id"] for s in ann.get("/sessions").json()["sessions"]] == [new.pk]
    assert [s["id"] for s in ann.get("/sessions?archived=true").json()["sessions"]] == [old.pk]


def test_huge_limit_counts_as_the_largest(ann, session):
    assert len(ann.get(f"/sessions?limit={10**40}").json()["sessions"]) == 1


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=ten", "archived=maybe", "q=%00", f"q={'x' * 201}"])
def test_bad_query_is_refused(ann, query):
    assert refusal(ann.get(f"/sessions?{query}")) == (422, "invalid")


@pytest.mark.parametrize("cursor", ["x", "MTIz", "====", "%ff", "MS4", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5LmFh"])
def test_cursor_that_was_never_given_is_refused(ann, cursor):
    assert refusal(ann.get(f"/sessions?cursor={cursor}")) == (400, "bad_cursor")


def test_lists_hold_own_sessions_only(bob, session):
    assert bob.get("/sessions").json()["sessions"] == []


def unreachable_paths(session_id):
    yield from (f"/sessions/{session_id}{tail}" for tail in ("", "/events", "/messages", "/requests", "/requests/1"))
    yield from (f"/sessions/{session_id}{tail}" for tail in ("/queue", "/merges"))


def test_foreign_deleted_and_absent_sessions_are_the_same_404(ann, bob, session):
    gone = commands.create(Session.objects.get(pk=session.pk).owner)
    commands.delete(gone)
    answers = set()
    for caller, pk in ((bob, session.pk), (ann, gone.pk), (ann, new_id()), (ann, "x"), (ann, "%00"), (ann, "A" * 26)):
        for path in unreachable_paths(pk):
            answer = caller.get(path)
            answers.add((answer.status_code, answer.content))
    assert len(answers) == 1
    assert answers.pop()[0] == 404


WRITES = [
    ("PATCH", "", {"title": "Mine now"}),
    ("DELETE", "", None),
    ("POST", "/messages", {"text": "hello"}),
    ("POST", "/stop", None),
    ("POST", "/continue", None),
    ("POST", "/fork", {}),
    ("POST", "/retry", {"seq": 2}),
    ("POST", "/retract", {"seq": 2}),
    ("POST", "/promote", None),
    ("PATCH", "/queue/" + "0" * 26, {"text": "x"}),
    ("DELETE", "/queue/" + "0" * 26, None),
    ("DELETE", "/merges/" + "0" * 26, None),
]


@pytest.mark.parametrize(("method", "tail", "body"), WRITES)
def test_stranger_can_change_nothing(bob, session, method, tail, body):
    before = ann_sees(session)
    assert refusal(bob.call(method, f"/sessions/{session.pk}{tail}", body)) == (404, "not_found")
    assert ann_sees(session) == before


@pytest.mark.parametrize(("method", "tail", "body"), [("GET", "", None), ("GET", "/events", None), *WRITES])
def test_nobody_can_do_anything(nobody, session, method, tail, body):
    assert refusal(nobody.call(method, f"/sessions/{session.pk}{tail}", body)) == (401, "unauthorized")


def ann_sees(session):
    row = Session.objects.values().get(pk=session.pk)
    return row, Session.objects.count()
