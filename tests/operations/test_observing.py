"""Log lines, figures and spans of what happened, and nothing of what was said."""

import json
import logging
import re

import pytest
from django.db import IntegrityError, OperationalError
from django.test import Client

from sidechat_web.core import events as ev
from sidechat_web.runtime.observing import journal, metrics, traces
from sidechat_web.runtime.observing.facts import Watch

SAID = "MARKER what somebody said"


def events(*drafts):
    """The drafts as a log has them, 100 ms apart."""
    return [draft.at(seq, 1000 + 100 * seq) for seq, draft in enumerate(drafts)]


def a_turn(reason=None):
    source = {"kind": "model", "provider": "custom", "model": "scripted"}
    usage = {"inputTokens": 10, "outputTokens": 3, "cacheReadTokens": 90}
    failure = {"code": "RATE_LIMIT", "status": 429, "message": SAID}
    call = {"turn": 1, "step": 1, "callId": "c1", "name": SAID, "arguments": SAID}
    return [
        ev.turn_start(1),
        ev.user_message("u1", ev.text_blocks(SAID)),
        ev.step_start(1, 1),
        ev.Draft(ev.LLM_RETRY, {"turn": 1, "step": 1, "provider": "custom", "failure": failure}),
        ev.assistant_message(1, 1, {"content": ev.text_blocks(SAID), "source": source}, usage),
        ev.Draft(ev.TOOL_CALL, call),
        ev.tool_result(1, 1, "c1", "m1", SAID, is_error=True),
        ev.step_end(1, 1),
        ev.turn_end(1, reason or {"kind": "completed"}),
    ]


def test_facts_of_a_turn():
    facts = Watch().see("s1", events(*a_turn()))
    assert [(f.kind, f.seq, f.ms, f.details) for f in facts] == [
        ("turn started", 0, None, {}),
        ("request failed", 3, 100, {"provider": "custom", "code": "RATE_LIMIT", "status": 429}),
        (
            "request answered",
            4,
            100,
            {"provider": "custom", "model": "scripted", "inputTokens": 10, "outputTokens": 3, "cacheReadTokens": 90},
        ),
        ("tool ran", 6, 100, {"error": True}),
        ("turn ended", 8, 800, {"reason": "completed"}),
    ]
    assert "MARKER" not in repr(facts)


def test_turn_whose_beginning_another_process_saw():
    facts = Watch().see("s1", events(*a_turn())[3:])
    assert [fact.kind for fact in facts] == ["request failed", "request answered", "tool ran", "turn ended"]
    assert {fact.ms for fact in facts} == {None}


def test_failed_turn_says_its_code_and_not_its_message():
    error = {"kind": "error", "error": {"code": "OVERFLOW", "message": SAID}}
    [*_, ended] = Watch().see("s1", events(*a_turn(error)))
    assert ended.details == {"reason": "error", "code": "OVERFLOW"}


@pytest.mark.parametrize("data", [None, [], "x", 5, {}, {"turn": "x"}, {"message": {}}, {"reason": None}])
@pytest.mark.parametrize("kind", [ev.STEP_START, ev.ASSISTANT_MESSAGE, ev.LLM_RETRY, ev.TOOL_RESULT, ev.TURN_END])
def test_odd_events_are_taken(kind, data):
    Watch().see("s1", events(ev.turn_start(1), ev.Draft(kind, data)))


def test_only_so_many_turns_are_remembered(monkeypatch):
    monkeypatch.setattr("sidechat_web.runtime.observing.facts.MOST_SESSIONS", 3)
    watch = Watch()
    for n in range(10):
        watch.see(f"s{n}", events(ev.turn_start(1)))
    assert len(watch._open) == 3


# --- lines ---


def record(message="x", error=None, **extra):
    given = logging.LogRecord("sidechat", logging.INFO, "f", 1, message, None, (type(error), error, None))
    if error is None:
        given.exc_info = None
    for name, value in extra.items():
        setattr(given, name, value)
    return given


def test_json_line_has_where_it_was():
    line = json.loads(journal.Json().format(record("turn ended", session="s1", seq=8, turn=1, ms=5)))
    assert line["message"] == "turn ended"
    assert (line["session"], line["seq"], line["turn"], line["ms"]) == ("s1", 8, 1, 5)
    assert line["level"] == "INFO"


def test_plain_line_has_it_too():
    assert (
        journal.Quiet("%(message)s").format(record("turn ended", session="s1", seq=8)) == "turn ended session=s1 seq=8"
    )


def raised(error, cause=None):
    try:
        if cause:
            try:
                raise cause
            except type(cause) as e:
                raise error from e
        raise error
    except type(error) as e:
        return e


@pytest.mark.parametrize("formatter", [journal.Json(), journal.Quiet()])
@pytest.mark.parametrize("error", [ValueError(SAID), KeyError(SAID), IntegrityError(SAID), RuntimeError(SAID)])
def test_exceptions_are_logged_without_what_they_quote(formatter, error):
    line = formatter.format(record("it failed", raised(RuntimeError("outer " + SAID), error)))
    assert "MARKER" not in line
    assert type(error).__name__ in line
    assert "test_observing.py" in line


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OperationalError("connection refused")])
def test_failures_of_the_system_are_told(error):
    assert str(error) in journal.Quiet().format(record("it failed", raised(error)))


@pytest.mark.parametrize(
    "text",
    [
        "GET /accounts/join/abcdefghijklmnopqrstuvwxyz012345/",
        "Authorization: Bearer sc_abcdefghijklmnopqrstuvwxyz",
        "/ws/tree/?as=json&token=sc_abcdefghijklmnopqrstuvwxyz",
        "key sk-abcdefghijklmnopqrstuvwxyz is wrong",
        "postgresql://ann:abcdefghijklmnopqrstuvwxyz@db/x",
    ],
)
def test_secrets_in_a_message_are_taken_out(text):
    for formatter in (journal.Json(), journal.Quiet()):
        line = formatter.format(record(text))
        assert "abcdefghijklmnop" not in line
        assert "[secret]" in line


def test_long_extras_are_left_out():
    assert "MARKER" not in journal.Json().format(record("x", body=SAID * 50, thing=[SAID]))


# --- figures ---


_LABEL = r'[a-z]+="(?:[^"\\\n]|\\.)*"'
_SAMPLE = rf"[a-z_]+(\{{{_LABEL}(,{_LABEL})*\}})? [-+.e\d]+"


def samples(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(_SAMPLE, line) for line in lines)
    return dict(line.rsplit(" ", 1) for line in lines)


@pytest.fixture
def shown(settings):
    settings.SIDECHAT_METRICS_TOKEN = "a-token-for-metrics"
    return lambda: samples(
        Client(headers={"Authorization": "Bearer a-token-for-metrics"}).get("/metrics").content.decode()
    )


def test_figures_count_turns_requests_tokens_and_tools(db, shown):
    before = shown()
    for fact in Watch().see("s1", events(*a_turn())):
        metrics.count(fact)
    after = shown()

    def grown(name):
        return float(after[name]) - float(before.get(name, 0))

    assert grown('sidechat_turns_total{reason="completed"}') == 1
    assert grown('sidechat_requests_total{outcome="answered",provider="custom"}') == 1
    assert grown('sidechat_requests_total{outcome="failed",provider="custom"}') == 1
    assert grown('sidechat_tokens_total{kind="cache_read"}') == 90
    assert grown('sidechat_tool_calls_total{outcome="error"}') == 1
    assert grown("sidechat_turn_seconds_count") == 1
    assert grown('sidechat_turn_seconds_bucket{le="0.5"}') == 0
    assert grown('sidechat_turn_seconds_bucket{le="1"}') == 1
    assert grown('sidechat_http_responses_total{status="2xx"}') == 1


def test_odd_labels_keep_the_format(db, shown):
    metrics.requests.add(provider='a"b\\c\nd', outcome="answered")
    assert shown()


def test_series_are_bounded(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_SERIES", 5)
    counter = metrics.Counter("sidechat_test_total", "x")
    metrics._figures.remove(counter)
    for n in range(20):
        counter.add(label=str(n))
    assert len(list(counter.samples())) == 5


@pytest.mark.parametrize(
    ("token", "sent", "status"), [("", "", 404), ("", "Bearer ", 404), ("t0ken", "", 401), ("t0ken", "Bearer x", 401)]
)
def test_figures_are_not_for_everybody(db, settings, token, sent, status):
    settings.SIDECHAT_METRICS_TOKEN = token
    assert Client().get("/metrics", headers={"Authorization": sent}).status_code == status


# --- spans ---


@pytest.fixture
def spans(settings):
    """What an exporter gets."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    settings.SIDECHAT_TRACES = True
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace._set_tracer_provider(provider, log=False)
    return exporter.get_finished_spans


def test_turn_is_a_span_with_its_parts_below(spans):
    for fact in Watch().see("s1", events(*a_turn())):
        traces.record(fact)
    found = spans()
    [turn] = [span for span in found if span.name == "turn"]
    parts = [span for span in found if span is not turn]
    assert [span.name for span in parts] == ["request", "request", "tool"]
    assert all(span.parent.span_id == turn.context.span_id for span in parts)
    assert (turn.start_time, turn.end_time) == (1000 * 10**6, 1800 * 10**6)
    assert turn.attributes["sidechat.session"] == "s1"
    assert "MARKER" not in "".join(span.to_json() for span in found)
