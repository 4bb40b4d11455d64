"""Metrics of running parties: served while a run lasts, and no run fails by them."""

import re
import socket
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest

from fastlloyd.jobs import metrics
from fastlloyd.jobs.live import Live, Sight
from fastlloyd.jobs.metrics import CONTENT_TYPE, page, served
from network_processes import NAMES, SERVER, Site
from network_site import FAST, refused
from network_site import made as made  # noqa: PLC0414 - a fixture
from network_site import site as site  # noqa: PLC0414 - a fixture
from ports import free_address

LIVE = Live(
    sight=Sight(name="a", role="client", run_id="0" * 32, step="joining", n_rounds=7, n_clients=3),
    began=1.0,
    since=2.0,
    written=3.0,
)


def asked(
    port: int, path: str = "/metrics", method: str = "GET", host: str | None = None
) -> tuple[int, str, str]:
    """Status, content type and content of an answer."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


def free_port() -> int:
    return int(free_address().rpartition(":")[2])


def test_the_page_is_served_until_the_end_of_the_run_and_nothing_else_is() -> None:
    port = free_port()
    with served(("127.0.0.1", port), lambda: LIVE):
        assert asked(port) == (200, CONTENT_TYPE, page(LIVE))
        assert asked(port, "/")[0] == 404
        assert asked(port, method="POST")[0] == 501
        assert asked(port, host="evil.example:9464")[0] == 404
        assert asked(port, host=f"localhost:{port}")[0] == 200
        socket.create_connection(("127.0.0.1", port)).close()  # a reader that says nothing
        assert asked(port)[0] == 200
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))


def test_a_reader_that_holds_the_page_does_not_hold_the_end_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "_PATIENCE", 0.01)
    port = free_port()
    with ExitStack() as stack, served(("127.0.0.1", port), lambda: LIVE):
        stack.enter_context(socket.create_connection(("127.0.0.1", port)))
    assert port  # the block has ended, whether or not the thread has given up the reader


def test_a_port_that_is_taken_stops_no_run(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()[:2]
        done = False
        with served(address, lambda: LIVE):
            done = True
    assert done
    assert "the run goes on without them" in caplog.text


def test_a_view_that_fails_stops_no_run() -> None:
    port = free_port()

    def broken() -> Live:
        raise RuntimeError

    with served(("127.0.0.1", port), broken), pytest.raises(OSError):  # noqa: PT011
        asked(port)


def test_a_server_and_a_client_serve_what_is_public_and_a_taken_port_stops_neither(
    site: Site,
) -> None:
    ports = {SERVER: free_port(), "a": free_port()}
    server = site.start(SERVER, site.serve("--metrics", f"{ports[SERVER]}"), FAST)
    site.wait_for(lambda: "metrics at http://127.0.0.1:" in site.said(SERVER))
    site.wait_for(lambda: asked(ports[SERVER])[2])
    client = site.start("a", site.join("a", "--metrics", f"{ports['a']}"), FAST)
    site.wait_for(lambda: 'client_connected{client="a"} 1' in asked(ports[SERVER])[2])
    site.wait_for(lambda: 'role="client"' in asked(ports["a"])[2])
    names = set(re.findall(r"^(fastlloyd_\w+)", asked(ports["a"])[2], re.MULTILINE))
    assert names == {f"fastlloyd_{each.name}" for each in (metrics.INFO, *metrics.METRICS)}
    names = set(re.findall(r"^(fastlloyd_\w+)", asked(ports[SERVER])[2], re.MULTILINE))
    assert names >= {f"fastlloyd_{each.name}" for each in metrics.OF_CLIENTS}
    other = site.start("b", site.join("b", "--metrics", f"{ports['a']}"), FAST)  # it is taken
    site.wait_for(lambda: "the run goes on without them" in site.said("b"))
    others = [client, other, site.start("c", site.join("c"), FAST)]
    assert [process.wait(120) for process in others] == [0] * 3, site.said("b")
    assert server.wait(120) == 0
    assert len(site.centroids()) == len(NAMES)
    refused(site, site.serve("--metrics", "here"), "is not an address")
