"""`Idempotency-Key`: one answer and one piece of work for a key, also for many calls at once and after a crash."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from sidechat_web.api import sessions
from sidechat_web.runtime import commands
from sidechat_web.storage.models import IdempotencyKey, QueueItem, Session

from .conftest import refusal

KEY = {"Idempotency-Key": "k-1"}


@pytest.mark.django_db
class TestOneAtATime:
    def test_same_key_gives_the_same_answer(self, ann):
        first = ann.post("/sessions", {"title": "Once"}, **KEY)
        again = ann.post("/sessions", {"title": "Once"}, **KEY)
        assert (again.status_code, again.content) == (201, first.content)
        assert Session.objects.count() == 1

    def test_answer_stays_though_the_session_changed_or_went(self, ann):
        first = ann.post("/sessions", {"title": "Once"}, **KEY)
        ann.patch(f"/sessions/{first.json()['id']}", {"title": "Twice"})
        assert ann.post("/sessions", {"title": "Once"}, **KEY).content == first.content
        ann.delete(f"/sessions/{first.json()['id']}")
        assert ann.post("/sessions", {"title": "Once"}, **KEY).content == first.content

    def test_every_kind_of_post_is_keyed(self, ann, session):
        calls = [
            ("/messages", {"text": "hi"}),
            ("/continue", None),
            ("/stop", None),
            ("/fork", {"text": "why?"}),
            ("/retry", {"seq": 3}),
        ]
        for number, (tail, body) in enumerate(calls):
            key = {"Idempotency-Key": f"k-{number}"}
            first = ann.post(f"/sessions/{session.pk}{tail}", body, **key)
            assert first.status_code < 300, tail
            before = (Session.objects.count(), QueueItem.objects.count())
            again = ann.post(f"/sessions/{session.pk}{tail}", body, **key)
            assert (again.status_code, again.content) == (first.status_code, first.content), tail
            assert (Session.objects.count(), QueueItem.objects.count()) == before, tail

    @pytest.mark.parametrize(
        ("path", "body"), [("/sessions", {"title": "Other"}), ("/sessions?x=1", {"title": "Once"})]
    )
    def test_same_key_with_another_request_is_refused(self, ann, path, body):
        ann.post("/sessions", {"title": "Once"}, **KEY)
        assert refusal(ann.post(path, body, **KEY)) == (409, "idempotency_mismatch")

    def test_keys_of_others_are_others(self, ann, bob):
        mine, theirs = ann.post("/sessions", {}, **KEY), bob.post("/sessions", {}, **KEY)
        assert mine.json()["id"] != theirs.json()["id"]

    def test_without_a_key_each_call_counts(self, ann):
        assert ann.post("/sessions").json()["id"] != ann.post("/sessions").json()["id"]

    def test_key_of_another_method_is_ignored(self, ann, session):
        ann.post("/sessions", {}, **KEY)
        assert ann.get("/sessions", **KEY).status_code == 200
        assert ann.patch(f"/sessions/{session.pk}", {"pinned": True}, **KEY).status_code == 200

    def test_refusal_keeps_no_answer(self, ann, open_turn):
        path = f"/sessions/{open_turn.pk}/fork"
        last = {"atSeq": open_turn.next_seq - 1}
        assert refusal(ann.post(path, last, **KEY)) == (409, "turn_open")
        assert not IdempotencyKey.objects.exists()
        assert ann.post(path, {}, **KEY).status_code == 201

    @pytest.mark.parametrize("key", ["", "x" * 256, "schlüssel", "tab\there"])
    def test_bad_key_is_refused(self, ann, key):
        assert refusal(ann.post("/sessions", {}, **{"Idempotency-Key": key})) == (400, "bad_idempotency_key")
        assert not Session.objects.exists()

    def test_crash_before_the_answer_is_kept_leaves_nothing(self, ann, monkeypatch):
        class Killed(BaseException):
            pass

        def killed(session):
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(sessions, "session_json", killed)
            with pytest.raises(Killed):
                ann.post("/sessions", {}, **KEY)
        assert not Session.objects.exists()
        assert not IdempotencyKey.objects.exists()
        assert ann.post("/sessions", {}, **KEY).status_code == 201
        assert Session.objects.count() == 1


@pytest.mark.django_db(transaction=True)
class TestAllAtOnce:
    def at_once(self, count, call):
        """What `count` threads get that call at the same moment."""
        barrier = Barrier(count)

        def one(number):
            try:
                barrier.wait(20)
                return call(number)
            finally:
                connection.close()

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    def test_twenty_calls_make_one_session(self, ann):
        answers = self.at_once(20, lambda n: ann.post("/sessions", {"title": "Once"}, **KEY))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.content for answer in answers}) == 1
        assert Session.objects.count() == 1

    def test_twenty_calls_send_one_message(self, ann, owner):
        session = commands.create(owner)
        path = f"/sessions/{session.pk}/messages"
        answers = self.at_once(20, lambda n: ann.post(path, {"text": "hi"}, **KEY))
        assert len({(answer.status_code, answer.content) for answer in answers}) == 1
        assert QueueItem.objects.count() == 1

    def test_of_two_requests_under_one_key_one_wins(self, ann):
        answers = self.at_once(10, lambda n: ann.post("/sessions", {"title": f"T{n % 2}"}, **KEY))
        assert sorted({answer.status_code for answer in answers}) == [201, 409]
        assert Session.objects.count() == 1
