"""From starting the server to its first page, and what it holds in memory when idle.

Run: `.venv/bin/python -m bench.start [RUNS]`; prints a table, then the same as one line of JSON. `first` is a
start on an empty data directory, which also makes the database; the rest are medians of later starts. CPU
seconds tell what a start costs on a machine that does something else, too.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IDLE_SECONDS = 5


@contextmanager
def started(data_dir: str) -> Iterator[tuple[int, float]]:
    """A server and how many seconds after its start the page answered 200."""
    port = free_port()
    command = [sys.executable, "manage.py", "serve", "--migrate", "--port", str(port)]
    begun = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "SIDECHAT_DATA_DIR": data_dir}, stdout=subprocess.DEVNULL
    ) as server:
        try:
            while not answers(f"http://127.0.0.1:{port}/"):
                assert server.poll() is None, "the server ended"
                time.sleep(0.01)
            yield server.pid, time.perf_counter() - begun
        finally:
            server.terminate()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def measure(runs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as data_dir:
        with started(data_dir) as (_, first):
            pass
        times, costs, sizes = [], [], []
        for _ in range(runs):
            with started(data_dir) as (pid, seconds):
                times.append(seconds)
                costs.append(cpu_seconds(pid))
                time.sleep(IDLE_SECONDS)
                sizes.append(resident_mb(pid))
    return {
        "first_start_s": round(first, 2),
        "start_s": round(statistics.median(times), 2),
        "start_max_s": round(max(times), 2),
        "start_cpu_s": round(statistics.median(costs), 2),
        "idle_mb": round(statistics.median(sizes), 1),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", nargs="?", type=int, default=5)
    figures = measure(options.parse_args().runs)
    for name, value in figures.items():
        print(f"{name:15} {value:8}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
