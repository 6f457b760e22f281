"""The embedded model for real: its process, its answers, its prefix cache."""

import asyncio
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from bench import prefix_cache
from sidechat_web.runtime import local_model


@pytest.fixture(autouse=True)
async def _stopped():
    yield
    await local_model.stop()


async def test_starts_on_first_use_shared_by_concurrent_uses_and_answers():
    assert local_model.state() == "asleep"
    urls = await asyncio.gather(*(local_model.base_url() for _ in range(6)))
    assert len(set(urls)) == 1
    assert local_model.state() == "ready"
    answer = await prefix_cache.ask([("user", "Say hello.")])
    assert answer.text.strip()
    assert answer.prompt_tokens > 0 < answer.output_tokens


async def test_more_requests_than_slots_all_answer():
    answers = await asyncio.gather(*(prefix_cache.ask([("user", f"Count to {n}.")]) for n in range(7)))
    assert all(answer.output_tokens for answer in answers)


async def test_killed_it_is_started_again():
    before = await local_model.base_url()
    process = local_model._process._process
    assert process is not None
    process.kill()
    process.wait()
    answer = await prefix_cache.ask([("user", "Say hello.")])
    assert answer.output_tokens
    assert await local_model.base_url() != before


async def test_a_client_that_leaves_frees_its_slot():
    long = ("user", "Write a very long story.")
    streams = asyncio.Event()
    tasks = [asyncio.create_task(prefix_cache.ask([long], tokens=1000, begun=streams.set)) for _ in range(3)]
    await streams.wait()
    for task in tasks:
        task.cancel()
    answer = await prefix_cache.ask([("user", "Say hello.")])
    assert answer.output_tokens


async def test_only_who_knows_the_secret_is_served():
    url = await local_model.base_url()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        await asyncio.to_thread(urllib.request.urlopen, "/".join(url.split("/")[:3]) + "/v1/models")


async def test_a_fork_reuses_the_inherited_prompt_while_the_parent_is_idle():
    assert (await prefix_cache.idle()).share >= 0.95


async def test_a_fork_reuses_the_inherited_prompt_while_the_parent_streams():
    assert (await prefix_cache.streaming()).share >= 0.95


async def test_a_changed_system_prompt_reuses_almost_nothing():
    assert (await prefix_cache.changed_system()).share <= 0.05


async def test_switched_off(settings):
    settings.SIDECHAT_LOCAL_MODEL = False
    assert local_model.state() == "off"
    with pytest.raises(local_model.LocalModelError):
        await local_model.base_url()


def test_ends_when_its_parent_is_killed():
    """The parent prints the model's pid, then is killed without a chance to clean up."""
    code = (
        "import asyncio, django, sys, time; django.setup()\n"
        "from sidechat_web.runtime import local_model as m\n"
        "asyncio.run(m.base_url()); print(m._process._process.pid, flush=True); time.sleep(600)"
    )
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        model = int(parent.stdout.readline())
        parent.kill()
    assert _gone(model)


def _gone(pid: int) -> bool:
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False
