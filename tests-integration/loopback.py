"""A local HTTP server that stands in for the providers: it validates requests and answers them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from loopback_apis import Anthropic, Api, Chat, Gemini, Responses
from loopback_rules import Fields, RefusedError

MAX_BYTES = 5_000_000
MAX_REQUESTS = 2_000


class Loopback:
    """The requests that the server received, and those that it refused.

    ``window`` is the context window in tokens. ``events_sent`` is the number of events after which
    a stream breaks off; ``None``: it does not. Both can be changed at any time.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.window = 1_000_000
        self.events_sent: int | None = None
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Discards all requests and the state of the APIs."""
        self.apis: list[Api] = [Chat(), Responses(), Anthropic(), Gemini()]
        self.requests: list[Fields] = []
        self.refusals: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that direct the SDKs to this server."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GOOGLE_API_KEY": "none",
        }

    def respond(self, path: str, body: bytes) -> tuple[Api | None, int, Fields]:
        """Returns the API, the status code and the body of the response."""
        api = next((api for api in self.apis if api.path in path), None)
        if api is None or len(self.requests) >= MAX_REQUESTS:
            return None, 404, {"error": {"message": f"no API at {path}"}}
        with self._lock:
            try:
                request = json.loads(body)
                self.requests.append(request)
                # The rules are the same for streamed and other responses.
                fields = {name: value for name, value in request.items() if "stream" not in name}
                return api, 200, api.respond(fields, self.window)
            except RefusedError as refused:
                self.refusals.append(refused.message)
                return api, 400, api.refusal(refused)
            except Exception as error:
                self.refusals.append(f"malformed: {error!r}")
                return api, 400, api.refusal(RefusedError(f"malformed: {error!r}"))


@contextmanager
def running() -> Iterator[Loopback]:
    """Runs a server on a free port while the context is open."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    loopback = Loopback(f"http://127.0.0.1:{server.server_port}")
    server.loopback = loopback  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield loopback
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    timeout = 30

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BYTES:
            self.send_error(413)
            return
        body = self.rfile.read(length)
        loopback: Loopback = self.server.loopback  # type: ignore[attr-defined]
        api, status, answer = loopback.respond(self.path, body)
        if api is not None and status == 200 and self._wants_a_stream(body):
            events = _as_events(api, answer)
            sent = "".join(events[: loopback.events_sent])
            self._send(status, "text/event-stream", sent, len("".join(events).encode()))
        else:
            self._send(status, "application/json", json.dumps(answer))

    def _wants_a_stream(self, body: bytes) -> bool:
        return "streamGenerateContent" in self.path or bool(json.loads(body).get("stream"))

    def _send(self, status: int, kind: str, text: str, length: int | None = None) -> None:
        """Sends a response. If it is shorter than its length, the connection breaks off."""
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments: Any) -> None:
        """Logs nothing, so that the output of the tests stays readable."""


def _as_events(api: Api, answer: Fields) -> list[str]:
    lines = []
    for name, data in api.events(answer):
        event = f"event: {name}\n" if name else ""
        lines.append(f"{event}data: {json.dumps(data)}\n\n")
    return lines
