"""What a crawl loses beside receivers that hang or are slow and want all its items: `shoal up` with and without."""

import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.launch import environment
from benchmarks.result import Row
from benchmarks.server import serve

PAGES, QUICK_PAGES = 10_000, 300
ROUNDS, QUICK_ROUNDS = 7, 1
SLOW_S = 2.0
LEAST = 97.0
ENDS_S = 600.0
TOLD_S = 60.0
WARM_UP_PAGES = 100
_SPEC: dict[str, Any] = {
    "rate": "unlimited",
    "robots": False,
    "fields": {"title": "h1", "trail": ".trail", "first": "article p"},
}


def measure(quick: bool) -> list[Row]:
    """Round after round with and without, in turn: the machine's noise hits both alike."""
    pages, rounds = (QUICK_PAGES, QUICK_ROUNDS) if quick else (PAGES, ROUNDS)
    shares: list[float] = []
    told = 0
    with serve([pages]) as urls:
        for number in range(rounds):
            rates: dict[bool, float] = {}
            for with_them in (True, False) if number % 2 else (False, True):
                rates[with_them], came = _crawl(urls[pages], pages, with_them=with_them)
                told += came
            shares.append(rates[True] / rates[False] * 100)
            print(f"webhooks: round {number + 1}: {shares[-1]:.1f} %", file=sys.stderr, flush=True)
    if not told:
        raise RuntimeError("no receiver was told anything")
    note = f"median of {rounds} rounds of {pages:,} pages, {min(shares):.1f} to {max(shares):.1f}; {told} messages came"
    return [Row("a crawl beside receivers that hang and are slow", median(shares), "%", note, at_least=LEAST)]


def _crawl(url: str, pages: int, *, with_them: bool) -> tuple[float, int]:
    """(pages a second, messages that came)"""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-home-")))
        api = stack.enter_context(_up(home))
        _work_off(api, {"urls": [url], **_SPEC, "pages": WARM_UP_PAGES})  # what starts up would slow the first job down
        asked: list[str] = []
        if with_them:
            port = stack.enter_context(_receivers(asked))
            for path in ("hangs", "slow"):
                _ask(f"{api}/webhooks", {"url": f"http://127.0.0.1:{port}/{path}", "name": path, "events": _EVENTS})
        status = _work_off(api, {"urls": [url], **_SPEC})
        if status["pages"] < pages:
            raise RuntimeError(f"{status['pages']} of {pages} pages")
        until = time.monotonic() + TOLD_S
        while with_them and not asked and time.monotonic() < until:  # a short crawl ends before anybody is told
            time.sleep(0.1)
        return status["pages"] / status["elapsed_seconds"], len(asked)


def _work_off(api: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A job from submission to its end; its status then."""
    job = _ask(f"{api}/jobs", spec)["id"]
    until = time.monotonic() + ENDS_S
    while (status := _ask(f"{api}/jobs/{job}"))["state"] != "finished":
        if time.monotonic() > until:
            raise TimeoutError(f"not done after {ENDS_S:.0f} s")
        time.sleep(0.1)
    return status


_EVENTS = ["job.started", "job.finished", "items"]


@contextmanager
def _up(home: Path) -> Generator[str]:
    command = [sys.executable, "-m", "shoal", "up", "--port", "0", "--workers", "1", "--json"]
    process = subprocess.Popen(
        command,
        env=environment({"SHOAL_HOME": str(home)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"] + "/api/v1"
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def _ask(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return json.loads(answer.read())


@contextmanager
def _receivers(asked: list[str]) -> Generator[int]:
    """One that never answers, and one that takes its time."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path)
            over.wait(ENDS_S if self.path == "/hangs" else SLOW_S)
            if not over.is_set():
                self.send_response(204)
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Quietly."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield int(server.server_address[1])
        finally:
            over.set()
            server.shutdown()
