"""A local HTTP server that speaks the OpenAI protocol, and misbehaves on request."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Request"], None]
"""Answers one HTTP request in place of the ordinary answer."""


class Request(BaseHTTPRequestHandler):
    """One HTTP request; `endpoint` is the server's script and record."""

    protocol_version = "HTTP/1.1"
    endpoint: "Endpoint"

    def do_GET(self) -> None:
        """Answer a listing."""
        self._answer({})

    def do_POST(self) -> None:
        """Answer a completion or an embedding."""
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def reply(self, status: int, body: bytes, *, content_type: str = "application/json", **headers: str) -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, body: dict[str, Any]) -> None:
        self.body = body
        endpoint = self.endpoint
        with endpoint.lock:
            headers = {name.lower(): value for name, value in self.headers.items()}
            endpoint.requests.append((self.path, headers, body))
            behaviour = endpoint.script.pop(0) if endpoint.script else None
        if behaviour is not None:
            behaviour(self)
        else:
            self.ordinary()

    def ordinary(self) -> None:
        """Answer as an endpoint does on a good day."""
        if self.path.endswith("/models"):
            names = ("llama-3.1-8b", "nomic-embed-text")
            self.reply(
                200, json.dumps({"object": "list", "data": [{"id": n, "object": "model"} for n in names]}).encode()
            )
        elif self.path.endswith("/embeddings"):
            rows = [
                {"object": "embedding", "index": n, "embedding": [float(len(text)), 1.0]}
                for n, text in enumerate(self.body["input"])
            ]
            self.reply(200, json.dumps({"object": "list", "model": self.body["model"], "data": rows[::-1]}).encode())
        else:
            self.reply(200, completion(self.body["model"], self.endpoint.text))


class Endpoint:
    """The server's address, the answers it is to give next, and what it was asked."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.script: list[Behaviour] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.text = '{"items": []}'
        self.released = threading.Event()
        handler = type("Bound", (Request,), {"endpoint": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """Bodies of the requests to a path."""
        return [body for asked, _, body in self.requests if asked.endswith(path)]


@contextmanager
def running_endpoint() -> Iterator[Endpoint]:
    """Run an endpoint in a thread."""
    endpoint = Endpoint()
    thread = threading.Thread(target=endpoint.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.released.set()
        endpoint.server.shutdown()
        endpoint.server.server_close()
        thread.join()


def completion(model: str, text: str) -> bytes:
    """A chat completion's body."""
    return json.dumps(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
        }
    ).encode()


def status(code: int, message: str = "no", **headers: str) -> Behaviour:
    """Answer with an error status and OpenAI's error body; retries follow at once."""
    body = json.dumps({"error": {"message": message, "type": "error", "param": None, "code": None}}).encode()
    return lambda request: request.reply(code, body, **{"retry_after_ms": "1", **headers})


def not_json(request: Request) -> None:
    """Answer 200 with a web page, as a proxy or a captive portal does."""
    request.reply(200, b"<html><body>Welcome</body></html>", content_type="text/html")


def other_json(request: Request) -> None:
    """Answer 200 with JSON that is no completion."""
    request.reply(200, b'{"hello": "world"}')


def broken_json(request: Request) -> None:
    """Answer 200 with JSON that ends in the middle."""
    request.reply(200, b'{"id": "c1", "choices": [{"index": 0, "mess')


def cut_off(request: Request) -> None:
    """Announce a body, send half of it and hang up."""
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", "5000")
    request.end_headers()
    request.wfile.write(b'{"id": "c1"')
    request.wfile.flush()
    request.close_connection = True
    with contextlib.suppress(OSError):
        request.connection.shutdown(socket.SHUT_RDWR)


def silent(request: Request) -> None:
    """Never answer while the test lasts."""
    request.endpoint.released.wait(30)
    request.close_connection = True
