"""The short, seeded forms of the fault runs."""

from tests.faults import cluster, crosstalk, cuts, kill, queueing
from tests.services import redis_server


def test_cut_sockets_lose_and_double_nothing():
    assert cuts.run(streams=6, cuts=40, seed=5, pause=0.03) == []


def test_kill_at_random_moments():
    assert kill.run(kills=3, seed=7) == []


def test_what_is_queued_and_steered_runs_once_in_order():
    assert queueing.run(sessions=4, messages=24, kills=1, seed=5) == []


def test_nothing_of_one_session_reaches_the_other():
    assert crosstalk.run(turns=15) == []


def test_nothing_of_one_session_reaches_the_other_on_two_servers():
    with redis_server() as redis:
        assert crosstalk.run(turns=15, redis=f"redis://127.0.0.1:{redis.port}/0") == []


def test_two_web_processes_and_two_workers_are_struck_in_turn():
    assert cluster.run(sessions=4, kills=4, seed=3) == []
