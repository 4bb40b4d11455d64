"""Metrics of a running client or server, as a page for Prometheus.

The page shows what the file of progress contains (`live.py`): names, rounds, bytes, times and the
clients that a run waits for. The page says nothing about records. Without an address there is no
page, and a failure of the page never stops the run.
"""

import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from fastlloyd.errors import NetworkError
from fastlloyd.jobs.live import Live

LOOPBACK: Final = "127.0.0.1"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ADDRESS: Final = re.compile(
    r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):)?(?P<port>[0-9]{1,5})"
)
_LOOPBACKS: Final = (LOOPBACK, "::1", "localhost")
_NAMES_OF_HERE: Final = (LOOPBACK, "[::1]", "localhost")
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_SECONDS: Final = 5.0  # for one reader to send its request and take the page
_SOON: Final = 0.1  # between two looks at whether the run has ended
_PAUSE: Final = 0.01  # so that a reader, or a lack of files, keeps no core busy
_PATIENCE: Final = 1.0
_LOG = logging.getLogger(__name__)

Look = Callable[[], Live | None]


class Metric(NamedTuple):
    """Metric on the page for Prometheus.

    name : name without the prefix `fastlloyd_`.
    kind : "gauge" or "counter".
    help : meaning of the value, as a sentence on the page.
    """

    name: str
    kind: str
    help: str


INFO: Final = Metric("info", "gauge", "Party, run and current step as labels; always 1.")
METRICS: Final = (
    Metric("rounds", "gauge", "Rounds in the plan."),
    Metric("rounds_closed", "gauge", "Rounds whose sums are known."),
    Metric("clients", "gauge", "Clients in the plan."),
    Metric("clients_awaited", "gauge", "Clients that have not answered in this step."),
    Metric("sent_bytes_total", "counter", "Bytes that this process sent."),
    Metric("received_bytes_total", "counter", "Bytes that this process received."),
    Metric("began_timestamp_seconds", "gauge", "Start of this process."),
    Metric("step_timestamp_seconds", "gauge", "Start of the current step."),
    Metric("seen_timestamp_seconds", "gauge", "Time of these values."),
    Metric("over", "gauge", "1 after the end of the run in this process, otherwise 0."),
)
OF_CLIENTS: Final = (
    Metric("client_awaited", "gauge", "At a server: 1 if the client has not answered."),
    Metric("client_connected", "gauge", "At a server: 1 if the client is connected."),
)


def page(live: Live | None) -> str:
    """Return the page in Prometheus' text format. It is empty before the first view of the run."""
    if live is None:
        return ""
    sight = live.sight
    whom = {"name": sight.name, "role": sight.role, "run_id": sight.run_id, "step": sight.step}
    values: Sequence[float] = (
        sight.n_rounds,
        sight.n_closed,
        sight.n_clients,
        sight.n_awaited,
        sight.sent,
        sight.received,
        int(live.began),
        int(live.since),
        int(live.written),
        int(bool(live.end)),
    )
    lines = [*_head(INFO), f"fastlloyd_info{_labels(whom)} 1"]
    for metric, value in zip(METRICS, values, strict=True):
        lines += [*_head(metric), f"fastlloyd_{metric.name} {value}"]
    names = dict.fromkeys((*(sight.awaited or ()), *(sight.connected or ())))
    for metric, those in zip(OF_CLIENTS, (sight.awaited, sight.connected), strict=True):
        if those is not None:
            lines += _head(metric)
            lines += [
                f"fastlloyd_{metric.name}{_labels({'client': name})} {int(name in those)}"
                for name in names
            ]
    return "\n".join(lines) + "\n"


def _head(metric: Metric) -> list[str]:
    name = f"fastlloyd_{metric.name}"
    return [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"]


def _labels(of: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{said.translate(_ESCAPES)}"' for name, said in of.items()) + "}"


def address_of(said: str) -> tuple[str, int]:
    """Return the host and the port of an address "[HOST:]PORT". The default host is the loopback
    address.

    Raises NetworkError for any other text.
    """
    found = _ADDRESS.fullmatch(said)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise NetworkError(
            f"--metrics {said!r:.80} is not an address; expected PORT or HOST:PORT, such as 9464"
        )
    return (found["host"] or LOOPBACK).strip("[]"), int(found["port"])


@contextmanager
def served(address: tuple[str, int] | None, look: Look) -> Iterator[None]:
    """Context manager that serves the page at http://HOST:PORT/metrics until the end of the block.

    If the address cannot be used, a warning is logged, and the block runs without the page.

    address : host and port, or None for no page.
    look : function that returns the last view of the run.
    """
    server = None if address is None else _listening(address, look)
    if server is None:
        yield
        return
    has_ended = threading.Event()
    thread = threading.Thread(
        target=_answer, args=(server, has_ended), name="fastlloyd-metrics", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join(_PATIENCE)  # a slow reader must not hold up the end of the run
        server.server_close()


def _answer(server: Any, has_ended: threading.Event) -> None:
    """Answer one request after the other until the end. Only one connection is open at a time, so
    that requests cannot use up the file descriptors of the process.
    """
    while not has_ended.wait(_PAUSE):
        with suppress(OSError, ValueError):  # the server was closed
            server.handle_request()


def _listening(address: tuple[str, int], look: Look) -> Any:
    """Return a server that listens at the address, or None if the address cannot be used."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    # a page of the web that a browser on this machine shows must not read the loopback address
    # under a name of its own
    is_here = address[0] in _LOOPBACKS
    hosts = {f"{name}:{address[1]}" for name in _NAMES_OF_HERE} if is_here else None

    class Page(BaseHTTPRequestHandler):
        """Handler of requests for the page."""

        timeout = _SECONDS
        server_version, sys_version = "fastlloyd", ""

        def do_GET(self) -> None:
            is_page = self.path == "/metrics" and (
                hosts is None or self.headers.get("Host") in hosts
            )
            content = page(look()).encode() if is_page else b"see /metrics\n"
            self.send_response(200 if is_page else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing about a request."""

    class PageServer(HTTPServer):
        """HTTP server of the page of metrics."""

        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        timeout = _SOON

        def server_bind(self) -> None:
            """Bind without asking the name service for the name of this machine."""
            self.socket.bind(self.server_address)

        def handle_error(self, *_: object) -> None:
            """Do nothing. A program that closes its connection early is not a fault of the run."""

    try:
        server = PageServer(address, Page)
    except OSError as error:
        _LOG.warning(
            "no metrics: cannot listen at %s:%d (%s); the run goes on without them",
            *address,
            error.strerror or type(error).__name__,
        )
        return None
    _LOG.info("metrics at http://%s:%d/metrics", *address)
    return server
