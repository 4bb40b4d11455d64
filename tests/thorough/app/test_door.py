"""The door of the app: who comes in, and what every answer says. Real connections, raw requests."""

import errno
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from hmac import new as hmac
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from app_process import App, running, write_patients

pytest.importorskip("starlette", reason="needs the extra app")
pytest.importorskip("uvicorn", reason="needs the extra app")

from fastlloyd.app.door import CODE_SECONDS, IDLE_SECONDS, Door
from fastlloyd.app.listening import Complaints
from fastlloyd.app.peers import is_of_another_user


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


def ask(
    app: App,
    method: str,
    path: str,
    body: object = None,
    *,
    host: str | None = "",
    at: str = "127.0.0.1",
    more: dict[str, str] | None = None,
) -> Answer:
    """Send a request as it is. host : its Host, "" for the right one, None for none."""
    connection = http.client.HTTPConnection(at, app.port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if host is not None:
            connection.putheader("Host", host or app.host)
        for name, value in (more or {}).items():
            connection.putheader(name, value)
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else urlencode(body, doseq=True).encode()  # type: ignore[arg-type]
            if "Content-Type" not in (more or {}):
                connection.putheader("Content-Type", "application/x-www-form-urlencoded")
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, text)
    finally:
        connection.close()


def own(app: App, cookie: str = "") -> dict[str, str]:
    """Headers of a form that a page of the app sends."""
    found = {"Origin": f"http://{app.host}", "Sec-Fetch-Site": "same-origin"}
    return found | ({"Cookie": cookie} if cookie else {})


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    here = tmp_path_factory.mktemp("app")
    write_patients(here / "patients.csv", 50)
    with running(here) as started:
        yield started


@pytest.fixture(scope="module")
def cookie(app: App) -> str:
    refused = ask(app, "POST", "/enter", {"code": "x" * 25}, more=own(app))
    assert refused.status == 403
    entered = ask(app, "POST", "/enter", {"code": app.code.upper()}, more=own(app))
    assert entered.status == 303
    said = entered.headers["set-cookie"]
    assert "HttpOnly" in said
    assert "SameSite=Strict" in said
    assert "Domain" not in said
    assert ask(app, "POST", "/enter", {"code": app.code}, more=own(app)).status == 403
    return said.split(";")[0]


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost", "127.0.0.1", "[::1]", "fl-0.localhost"]
)
def test_another_name_of_this_machine_is_not_answered(app: App, host: str) -> None:
    for port in ("", f":{app.port}"):
        assert ask(app, "GET", "/", host=host + port).status == 421


def test_a_request_without_host_or_with_two_is_refused(app: App) -> None:
    assert ask(app, "GET", "/", host=None).status == 400
    with socket.create_connection(("127.0.0.1", app.port)) as raw:
        raw.sendall(f"GET / HTTP/1.1\r\nHost: {app.host}\r\nHost: evil\r\n\r\n".encode())
        assert b" 400 " in raw.recv(200)


def test_both_loopback_addresses_lead_to_the_app(app: App) -> None:
    assert ask(app, "GET", "/").status == ask(app, "GET", "/", at="::1").status == 200


def test_without_a_session_only_the_question_for_the_code_is_shown(app: App, cookie: str) -> None:
    assert 'name="code"' in ask(app, "GET", "/").text
    for path in ("/ledger", "/new/" + "0" * 32 + "/file", "/runs/" + "0" * 32 + "/live"):
        assert ask(app, "GET", path).headers["location"] == "/"
        assert ask(app, "GET", path, more={"Cookie": "fastlloyd=x"}).status == 303
    assert ask(app, "POST", "/new", {}, more=own(app)).headers["location"] == "/"
    assert ask(app, "GET", "/ledger", more={"Cookie": cookie}).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://127.0.0.1:9", "Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {},
    ],
)
def test_a_form_of_another_page_changes_nothing(
    app: App, cookie: str, origin: dict[str, str]
) -> None:
    assert ask(app, "POST", "/new", {}, more=origin | {"Cookie": cookie}).status == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_only_pages_and_forms_are_answered(app: App, cookie: str, method: str) -> None:
    assert ask(app, method, "/ledger", more=own(app, cookie)).status == 405


def test_a_form_is_short_plain_and_of_known_length(app: App, cookie: str) -> None:
    assert ask(app, "POST", "/enter", {"code": "x" * (3 << 19)}, more=own(app)).status == 413
    multipart = own(app, cookie) | {"Content-Type": "multipart/form-data; boundary=x"}
    assert ask(app, "POST", "/new", b"--x--", more=multipart).status == 415
    assert ask(app, "POST", "/new", more=own(app, cookie)).status == 415
    with socket.create_connection(("127.0.0.1", app.port)) as raw:
        headers = "".join(f"{k}: {v}\r\n" for k, v in own(app, cookie).items())
        raw.sendall(
            f"POST /new HTTP/1.1\r\nHost: {app.host}\r\n{headers}Content-Type:"
            " application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode()
        )
        assert b" 411 " in raw.recv(200)


def test_a_code_that_is_no_ascii_is_refused_in_words(app: App) -> None:
    for code in ("ä" * 25, "", "\0", "%ff"):
        assert ask(app, "POST", "/enter", {"code": code}, more=own(app)).status == 403
    assert ask(app, "POST", "/enter", b"code=%ff%fe", more=own(app)).status == 403


def test_get_changes_nothing(app: App, cookie: str) -> None:
    drafts = app.state / "fastlloyd/app/drafts"
    before = sorted(drafts.iterdir())
    for path in ("/new", "/enter", "/code", f"/runs/{'0' * 32}/again"):
        assert ask(app, "GET", path, more={"Cookie": cookie}).status in (400, 404, 405)
    assert sorted(drafts.iterdir()) == before


@pytest.mark.parametrize(
    "path",
    ["/new/..%2f..%2fx/file", "/runs/../../etc/passwd", f"/runs/{'A' * 32}", "/app.py", "/%00"],
)
def test_no_path_leads_out_of_the_state_folder(app: App, cookie: str, path: str) -> None:
    answer = ask(app, "GET", path, more={"Cookie": cookie})
    assert answer.status in (400, 404)
    assert "Traceback" not in answer.text


def test_other_pages_cannot_load_a_page_as_their_own_part(app: App, cookie: str) -> None:
    foreign = {"Cookie": cookie, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}
    assert ask(app, "GET", "/ledger", more=foreign).status == 403


def test_every_answer_has_a_strict_policy_and_names_no_server(app: App, cookie: str) -> None:
    for answer in (
        ask(app, "GET", "/"),
        ask(app, "GET", "/", host="evil"),
        ask(app, "GET", "/app.js"),
        ask(app, "GET", "/ledger", more={"Cookie": cookie}),
        ask(app, "GET", "/none", more={"Cookie": cookie}),
    ):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


def test_a_hundred_slow_connections_keep_no_one_waiting(app: App) -> None:
    with ExitStack() as stack:
        for _ in range(100):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", app.port)))
            slow.sendall(b"POST /enter HTTP/1.1\r\nHost: ")
        assert ask(app, "GET", "/").status == 200


def _listen(at: socket.socket, host: str, port: int) -> None:
    at.bind((host, port))
    at.listen()


def test_no_one_can_listen_beside_the_app(app: App) -> None:
    for family, host in (
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0"),  # noqa: S104
        (socket.AF_INET6, "::1"),
        (socket.AF_INET6, "::"),
    ):
        for reuse in (False, True):
            with socket.socket(family, socket.SOCK_STREAM) as other:
                if reuse:
                    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                with pytest.raises(OSError, match="in use"):
                    _listen(other, host, app.port)


def test_a_second_app_for_the_same_state_is_refused(app: App) -> None:
    again = subprocess.run(
        [sys.executable, "-P", "-m", "fastlloyd", "app", "--no-browser"],
        env={**os.environ, "XDG_STATE_HOME": str(app.state)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert again.returncode == 2
    assert "another fastlloyd app" in again.stderr
    assert "http" not in again.stdout


def test_the_code_stands_on_no_command_line_and_in_files_of_the_owner_alone(app: App) -> None:
    command = Path(f"/proc/{app.process.pid}/cmdline")
    if command.exists():
        assert app.code.encode() not in command.read_bytes()
    for path in (app.state / "fastlloyd/app").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


async def _nothing(_scope: object, _receive: object, _send: object) -> None:
    return None


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_code_lives_two_minutes_and_only_one_lives() -> None:
    clock, said = _Clock(), list[str]()
    door = Door(_nothing, "h:1", said.append, clock)
    first = door.new_code()
    second = door.new_code()
    assert door.enter(first) is None
    clock.now = CODE_SECONDS
    assert door.enter(second) is None
    door.ask_for_code()
    door.ask_for_code()
    assert len(said) == 1
    cookie = door.enter(f" {said[0].upper()} ")
    assert cookie is not None
    assert door.enter(said[0]) is None
    assert len({first, second, said[0]}) == 3
    assert all(len(code.replace("-", "")) == 25 for code in (first, second, said[0]))


def test_after_half_an_hour_without_use_the_code_is_asked_again() -> None:
    clock = _Clock()
    door = Door(_nothing, "h:1", lambda _: None, clock)
    assert door.enter(door.new_code())
    clock.now += IDLE_SECONDS - 1
    fresh = [door.is_fresh]
    door._use()
    clock.now += IDLE_SECONDS
    fresh.append(door.is_fresh)
    for _ in range(2):  # using it again is not enough
        door._use()
        fresh.append(door.is_fresh)
    assert door.enter(door.new_code())
    assert [*fresh, door.is_fresh] == [True, False, False, False, True]


def test_an_answer_is_signed_for_the_number_of_the_page_and_the_session() -> None:
    door = Door(_nothing, "h:1", lambda _: None)
    said = json.dumps({"state": "x"})
    key = bytes.fromhex(door.live_key)
    assert door.signed("n1", said) == hmac(key, f"n1\n{said}".encode(), sha256).hexdigest()
    assert len({door.signed("n1", said), door.signed("n2", said), door.signed("n1", "y")}) == 3
    before = door.live_key
    door.enter(door.new_code())
    assert door.live_key != before


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can become another user"
)
def test_a_process_of_another_user_is_refused_at_both_addresses(app: App) -> None:
    asked = (
        "import http.client,os; 'a'.encode('idna'); os.setuid(65534)\n"
        f"for at in ('127.0.0.1','::1'):\n"
        f"    c=http.client.HTTPConnection(at,{app.port}); c.putrequest('GET','/',skip_host=True)\n"
        f"    c.putheader('Host','{app.host}'); c.endheaders(); print(c.getresponse().status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["403", "403"], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the user of a connection")
def test_a_connection_is_refused_while_no_table_of_users_can_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_path: Path) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "read_text", fail)
    assert is_of_another_user(("127.0.0.1", 1), ("127.0.0.1", 2))


def test_a_flood_of_errors_is_one_line_a_minute_with_its_count() -> None:
    said, now = list[str](), [0.0]
    heard = Complaints(said.append, lambda: now[0])
    for _ in range(1000):
        heard(None, {"message": "socket.accept() out of system resource /a/path"})
    assert [text.rpartition(": ")[2] for text in said] == ["1."]
    now[0] = 61.0
    heard(None, {})
    assert [text.rpartition(": ")[2] for text in said[1:]] == ["1001."]
