"""User messages joined for a server that insists on alternation."""

from sidechat_web.core.alternation import alternating


def message(role, *texts):
    content = [{"type": "text", "text": text} for text in texts]
    return {"id": texts[0], "role": role, "content": content, "source": {"kind": "user"}}


def result(call_id):
    block = {"type": "tool-result", "toolCallId": call_id, "content": []}
    return {"id": call_id, "role": "user", "content": [block], "source": {"kind": "tool", "callId": call_id}}


def test_runs_of_user_texts_become_one_message_with_blank_lines():
    a, b, c = message("user", "a"), message("user", "b", "b2"), message("user", "c")
    said = message("assistant", "x")
    joined = {**a, "content": [{"type": "text", "text": "a\n\nbb2"}]}
    assert alternating([a, b, said, c]) == [joined, said, c]


def test_tool_results_and_images_stay_as_they_are():
    image = {"id": "p", "role": "user", "content": [{"type": "image"}], "source": {"kind": "user"}}
    history = [message("user", "a"), result("c1"), result("c2"), message("user", "b"), image]
    assert alternating(history) == history


def test_what_was_sent_stays_the_beginning_of_what_is_sent():
    history = [message("user", "a"), message("user", "b")]
    [before], [after] = alternating(history[:1]), alternating(history)
    assert after["content"][0]["text"].startswith(before["content"][0]["text"])
