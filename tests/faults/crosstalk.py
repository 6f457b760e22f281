"""Main and side stream at the same time; nothing of one appears in the log or on a socket of the other.

    python -m tests.faults.crosstalk --turns 200 [--redis URL]

With `--redis` two servers share the data directory: main runs through one, the side through the other, and
each is watched on both. Status 1 on any fault.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.faults.product import Product
from tests.faults.viewer import Viewer
from tests.scripted_provider import ScriptedProvider


async def follow(products: list[Product], turns: int) -> list[str]:
    """Run the story on the given servers and return its faults."""
    a, b = products[0], products[-1]
    main = await _call(a, "POST", "/api/sessions", {})
    await _call(a, "POST", f"/api/sessions/{main['id']}/messages", {"text": "first"})
    await asyncio.to_thread(a.wait_idle, main["id"])
    side = await _call(b, "POST", f"/api/sessions/{main['id']}/fork", {"side": True})
    ids = {"MAIN": main["id"], "SIDE": side["id"]}
    faults: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        viewers = {
            name: [await stack.enter_async_context(Viewer(p.url, ids[name], a.token)) for p in products] for name in ids
        }
        for n in range(turns):
            await asyncio.gather(
                _call(a, "POST", f"/api/sessions/{ids['MAIN']}/messages", {"text": _script("MAIN", n)}),
                _call(b, "POST", f"/api/sessions/{ids['SIDE']}/messages", {"text": _script("SIDE", n)}),
            )
            if n % 20 == 19:
                await asyncio.to_thread(a.wait_idle, *ids.values(), seconds=120)
        await asyncio.to_thread(a.wait_idle, *ids.values(), seconds=300)
        await asyncio.sleep(1)
        for name, other in (("MAIN", "SIDE"), ("SIDE", "MAIN")):
            log = await asyncio.to_thread(a.events, ids[name], chunks=1)
            faults += _faults(name, other, turns, log, viewers[name])
    return faults


def _faults(name: str, other: str, turns: int, log: list[dict[str, Any]], viewers: list[Viewer]) -> list[str]:
    out = []
    if f"{other}-" in str(log):
        out.append(f"the log of {name} holds something of {other}")
    durable = [e for e in log if e["type"] != "assistant/chunk"]
    answered = [e for e in durable if e["type"] == "assistant/message"]
    if len([e for e in answered if f"{name}-" in str(e)]) != turns:
        out.append(f"{name} has {len(answered)} answers for {turns} questions")
    for k, viewer in enumerate(viewers):
        if any(f"{other}-" in frame for frame in viewer.frames):
            out.append(f"viewer {k} of {name} got a frame of {other}")
        if sorted(viewer.events) != [e["seq"] for e in durable]:
            missing = {e["seq"] for e in durable} ^ set(viewer.events)
            out.append(f"viewer {k} of {name} saw other events than are logged: {sorted(missing)[:10]}")
        if viewer.status != "idle":
            out.append(f"viewer {k} of {name} still shows {viewer.status}")
        out += [f"viewer {k} of {name}: {breach}" for breach in viewer.breaches]
    return out


def _script(name: str, n: int) -> str:
    words = " ".join(f"{name}-{n}-{w}" for w in range(8))
    return f"[[every:3]][[say:{words}]]"


async def _call(product: Product, method: str, path: str, body: Any) -> Any:
    status, answer = await asyncio.to_thread(product.call, method, path, body)
    assert status < 300, (status, answer)
    return answer


def run(turns: int, redis: str = "") -> list[str]:
    """The faults of a run; with `redis` on two servers."""
    environment = {"REDIS_URL": redis} if redis else {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedProvider() as provider,
        contextlib.ExitStack() as stack,
    ):
        count = 2 if redis else 1
        products = [stack.enter_context(Product(Path(folder), provider.base_url, **environment)) for _ in range(count)]
        faults = asyncio.run(follow(products, turns))
    print(f"{turns} turns each, {count} server(s): {len(faults)} faults")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--redis", default="")
    options = parser.parse_args()
    faults = run(options.turns, options.redis)
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
