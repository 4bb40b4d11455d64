"""Server of the app: its routes, its state folder and its end."""

import asyncio
import os
import secrets
import socket
import webbrowser
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fastlloyd.app.answers import sentence_of
from fastlloyd.app.children import ChildRuns
from fastlloyd.app.door import Door
from fastlloyd.app.drafts import Drafts
from fastlloyd.app.errands import Ask, Errands
from fastlloyd.app.frame import h, page
from fastlloyd.app.listening import Complaints, bound
from fastlloyd.app.pages import (
    approval,
    bounds,
    confirm,
    file,
    identity,
    invitation,
    ledger,
    plan,
    privacy,
    protect,
    rehearsal,
    run,
    start,
    study_records,
    study_run,
    waiting,
)
from fastlloyd.app.site import Site
from fastlloyd.base.files import write_private
from fastlloyd.base.markup import constant, element, together
from fastlloyd.errors import FastLloydError, StateError
from fastlloyd.federation.holder import state_folder
from fastlloyd.federation.store.lock import InUseError, Lock

LIFE_SECONDS: Final = 12 * 3600.0
_LOOK_SECONDS: Final = 5.0
_OPENER: Final = "open.html"
Answer = Callable[[Site, Request], Awaitable[Response]]
Say = Callable[[str], None]
_GET: Final[dict[str, Answer]] = {
    "/": start.show,
    "/new/{name}/file": file.show,
    "/new/{name}/protect": protect.show,
    "/new/{name}/bounds": bounds.show,
    "/new/{name}/privacy": privacy.show,
    "/new/{name}/confirm": confirm.show,
    "/new/{name}/recipe.toml": confirm.recipe_file,
    "/runs/{name}": run.show,
    "/runs/{name}/live": run.live,
    "/runs/{name}/result.html": run.result,
    "/runs/{name}/result.zip": run.zipped,
    "/ledger": ledger.show,
    "/study/{name}/identity": identity.show,
    "/study/{name}/wait": waiting.show,
    "/study/{name}/wait/live": waiting.live,
    "/study/{name}/invitation": invitation.show,
    "/study/{name}/plan": plan.show,
    "/study/{name}/approval": approval.show,
    "/study/{name}/agreement": approval.printed,
    "/study/{name}/records": study_records.show,
    "/study/{name}/rehearsal": rehearsal.show,
}
_POST: Final[dict[str, Answer]] = {
    "/enter": start.enter,
    "/code": start.code,
    "/new": start.begin,
    "/example": start.example,
    "/new/{name}/file": file.take,
    "/new/{name}/folder": file.choose,
    "/new/{name}/protect": protect.take,
    "/new/{name}/bounds": bounds.take,
    "/new/{name}/privacy": privacy.take,
    "/new/{name}/confirm": confirm.take,
    "/new/{name}/count": confirm.count,
    "/runs/{name}/labels": run.labels,
    "/runs/{name}/again": run.again,
    "/new/{name}/remove": start.remove_draft,
    "/runs/{name}/remove": start.remove_run,
    "/runs/{name}/go-on": run.go_on,
    "/runs/{name}/stop": run.stop,
    "/runs/{name}/give-up": study_run.give_up,
    "/ledger": ledger.take,
    "/study": identity.begin,
    "/study/{name}/identity": identity.take,
    "/study/{name}/make": identity.make,
    "/study/{name}/invitation": invitation.take,
    "/study/{name}/plan-folder": invitation.choose,
    "/study/{name}/plan": plan.take,
    "/study/{name}/decline": plan.decline,
    "/study/{name}/approval": approval.take,
    "/study/{name}/records": study_records.take,
    "/study/{name}/folder": study_records.choose,
    "/study/{name}/columns": study_records.take_columns,
    "/study/{name}/rehearse": rehearsal.rehearse,
    "/study/{name}/start": rehearsal.take,
    "/study/{name}/remove": start.remove_study,
}
_STATIC: Final = {"app.css": "text/css", "app.js": "text/javascript", "app.svg": "image/svg+xml"}


def application(site: Site) -> Starlette:
    """Return the pages as an ASGI application. Requests must pass a `Door` first."""
    routes = [Route(path, _page(site, answer), methods=["GET"]) for path, answer in _GET.items()]
    routes += [Route(path, _page(site, answer), methods=["POST"]) for path, answer in _POST.items()]
    routes += [Route(f"/{name}", _static(name, kind)) for name, kind in _STATIC.items()]
    return Starlette(routes=routes, exception_handlers={404: _no_page, 405: _no_page})


def _page(site: Site, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        try:
            return await answer(site, request)
        except FastLloydError as error:
            return _sorry(sentence_of(error), 400)
        # the last resort: whatever it is, its message may hold private values
        except Exception as error:  # noqa: BLE001
            said = f"fastlloyd failed with an unexpected {type(error).__name__}; please report it."
            return _sorry(said, 500)

    return answered


def _static(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("fastlloyd.app") / name).read_bytes()

    async def answered(_request: Request) -> Response:
        return Response(content, media_type=kind)

    return answered


async def _no_page(_request: Request, _error: Exception) -> Response:
    return _sorry("There is no such page.", 404)


def _sorry(sentence: str, status: int) -> Response:
    back = h("p", h("a", "To the first page", href="/", class_="button"))
    return page("This does not work", h("p", sentence, class_="note"), back, status=status)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Context manager that refuses a second app. Raises StateError if another app uses the state
    folder, otherwise runs its block.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = Lock(folder / "app")
    except InUseError:
        raise StateError(
            f"another fastlloyd app is running with the state folder {folder}; use that one, or end"
            " it with Ctrl-C where it was started"
        ) from None
    except OSError as error:
        raise StateError(f"{folder} cannot be used ({error.strerror})") from None
    try:
        yield
    finally:
        lock.release()


def serve(
    port: int, ledger_file: Path | None, say: Say, ask: Ask | None, *, with_browser: bool
) -> None:
    """Serve the app until Ctrl-C, or until it was not used for twelve hours.

    port : port, or 0 for a free one.
    ledger_file : file of the ledger, or None for the default.
    say : function that prints a line in the terminal in which the app was started.
    ask : function that asks for a passphrase there, or None without a terminal.
    with_browser : whether to open the app in the browser.

    Raises StateError if another app uses the state folder, and NetworkError if the port is taken.
    """
    state = state_folder() / "app"
    with _alone(state):
        sockets = bound(port)
        name = f"fl-{secrets.token_hex(8)}.localhost"
        host = f"{name}:{sockets[0].getsockname()[1]}"
        site = Site(
            drafts=Drafts(state / "drafts"),
            studies=Drafts(state / "studies"),
            runs=ChildRuns(state / "runs"),
            ledger=ledger_file,
            results=Path.cwd(),
            errands=Errands(ask),
        )
        door = Door(application(site), host, lambda code: say(f"Code (works once): {code}"))
        opener = state / _OPENER
        try:
            _greet(door, opener, say, with_browser=with_browser)
            asyncio.run(_run(door, sockets, say))
        finally:
            opener.unlink(missing_ok=True)
            for each in sockets:
                each.close()


def _greet(door: Door, opener: Path, say: Say, *, with_browser: bool) -> None:
    """Print address and code, and open the browser with a file that only this user can read.

    The code is on no command line, where others could see it.
    """
    code = door.new_code()
    address = f"http://{door.host}/"
    refresh = element("meta", http_equiv="refresh", content=f"0;url={address}#{code}")
    link = element("a", "Open the app", href=f"{address}#{code}")
    charset = element("meta", charset="utf-8")
    text = together(constant("<!doctype html>"), charset, refresh, element("p", link))
    opener.unlink(missing_ok=True)
    write_private(opener, text.text)
    say(f"Address: {address}")
    say(f"Code (works once, within two minutes): {code}")
    say("Open this address in Chromium, Chrome, Edge or Firefox; Safari cannot open it.")
    if "SSH_CONNECTION" in os.environ:
        port = door.host.rpartition(":")[2]
        say(f"From another machine: ssh -L {port}:localhost:{port} THIS-MACHINE (same ports).")
    say("Press Ctrl-C to end. Runs that are under way go on.")
    if with_browser:
        with suppress(webbrowser.Error):
            webbrowser.open(opener.as_uri())


async def _run(door: Door, sockets: list[socket.socket], say: Say) -> None:
    asyncio.get_running_loop().set_exception_handler(Complaints(say))
    config = uvicorn.Config(
        door,
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        http="h11",
        loop="asyncio",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)

    async def end_when_unused() -> None:
        while not server.should_exit:
            await asyncio.sleep(_LOOK_SECONDS)
            server.should_exit |= door.seconds_unused >= LIFE_SECONDS

    watching = asyncio.ensure_future(end_when_unused())
    try:
        await server.serve(sockets=sockets)
    finally:
        watching.cancel()
