"""The short, seeded forms of the fault runs."""

from tests.faults import kill


def test_kill_at_random_moments():
    assert kill.run(kills=3, seed=7) == []
