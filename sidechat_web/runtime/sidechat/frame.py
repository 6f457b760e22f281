"""The fixed texts that Sidechat puts into a session, and what they say about the session that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidechat_web.core import events as ev
from sidechat_web.core.events import Draft, Event
from sidechat_web.runtime.cutting import cut
from sidechat_web.storage.ids import new_id

PLUGIN: Final = ev.OWN_PLUGIN
ADVISOR: Final = "advisor"
HANDBACK_REQUEST: Final = "handback-request"
HANDBACK: Final = "handback"
RETRACTION: Final = "retraction"
PROMOTION: Final = "promotion"
LIFT: Final = "lift"
CARRIED: Final = "carried"

ADVISOR_TEXT: Final = (
    "[Side session, version 1] From here on this is a side session. You are a read-only advisor to the work above: "
    "explain it, question it, look things up. Do not continue its task and do not change anything; tools that change "
    "something are refused here. Answer only what is asked in this side session. The main session does not see it."
)
PROMOTION_TEXT: Final = (
    "[Side session, version 1] This session is no longer a side session: the advisor instructions above are lifted. "
    "You may act again; tools that change something are available."
)
LIFT_TEXT: Final = (
    "[Side session, version 1] This is an ordinary session that started from a side session: the advisor instructions "
    "above do not apply here. You may act; tools that change something are available."
)
RETRACTION_TEXT: Final = "[A note from a side session stood here. The user retracted it.]"
HANDBACK_REQUEST_TEXT: Final = (
    "[Side session, version 1] Write the handback: one note to the main session, which did not see this side session. "
    "At most {chars} characters, in this order: Conclusion: what was found. Evidence: what shows it, with the turn, "
    "like (turn {turn}). Caveats: what is not certain. Next step: what to do. Write only the note."
)
AGAIN_TEXT: Final = " An earlier handback was already merged: write only what is new since then."
EARLIER_TEXT: Final = " The user changed it; the main session has it like this: “{note}”"
TURNS_TEXT: Final = " The turns of this side session: {turns}."
_QUESTION_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Earlier:
    """A note that was merged before; `text` where the side does not know it, else empty."""

    text: str


def handback_request(chars: int, questions: Sequence[tuple[int, str]], earlier: Earlier | None) -> str:
    """The request for a note of at most `chars` characters about the turns `questions`, `(number, text)` in order."""
    listed = [
        f"turn {number}: “{cut(' '.join(text.split()), _QUESTION_CHARS, mark='…')[0]}”" for number, text in questions
    ]
    last = questions[-1][0] if questions else 1
    text = HANDBACK_REQUEST_TEXT.format(chars=chars, turn=last)
    if listed:
        text += TURNS_TEXT.format(turns="; ".join(listed))
    if earlier is not None:
        text += AGAIN_TEXT
        if earlier.text:
            text += EARLIER_TEXT.format(note=earlier.text)
    return text


def source(form: str, **more: Any) -> dict[str, Any]:
    return {"kind": "plugin", "plugin": PLUGIN, "form": form, **more}


def message(form: str, text: str, **more: Any) -> Draft:
    """A `context/message` draft of ours."""
    return ev.context_message(new_id(), text, source(form, **more))


def form_of(event: Event) -> str | None:
    """The form of a context message of ours, whichever of the two event types carries it; else None."""
    if event.type not in (ev.CONTEXT_MESSAGE, ev.USER_MESSAGE):
        return None
    src = event.data.get("source") or {}
    if src.get("kind") != "plugin" or src.get("plugin") != PLUGIN:
        return None
    form = src.get("form")
    return form if isinstance(form, str) else None


def framed(events: Iterable[Event]) -> bool:
    """Whether these events leave an advisor frame in force."""
    in_force = False
    for event in events:
        form = form_of(event)
        if form == ADVISOR:
            in_force = True
        elif form in (PROMOTION, LIFT):
            in_force = False
    return in_force
