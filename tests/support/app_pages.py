"""Pages of the app without a browser and without a socket: requests go to the door as ASGI."""

import asyncio
import re
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastlloyd.app.children import ChildRuns
from fastlloyd.app.door import Door
from fastlloyd.app.drafts import Drafts
from fastlloyd.app.errands import Errands
from fastlloyd.app.server import application
from fastlloyd.app.site import Site

HOST = "fl-0.localhost:1"
Fields = dict[str, Any]


class Page(NamedTuple):
    """Answer to a request."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def faults(self) -> dict[str, str]:
        """Sentence at each field that is at fault."""
        found = re.findall(r'<span class="fault" id="(.*?)-fault">(.*?)</span>', self.text)
        return {field: unescape(sentence) for field, sentence in found}

    @property
    def summed_up(self) -> list[str]:
        """Sentences above the content."""
        alert = re.search(r'<div class="faults".*?</div>', self.text)
        found = re.findall(r"<li>(.*?)</li>", alert[0]) if alert else []
        return [unescape(re.sub(r"<.*?>", "", each)) for each in found]


class Guest:
    """Somebody who came in, with the app in a folder. A clock tells the time of the door."""

    def __init__(self, here: Path) -> None:
        self.now, self.said = 0.0, list[str]()
        state = here / "app"
        self.site = Site(
            drafts=Drafts(state / "drafts"),
            studies=Drafts(state / "studies"),
            runs=ChildRuns(state / "runs"),
            ledger=here / "l.store",
            results=here,
            errands=Errands(),
        )
        self.door = Door(application(self.site), HOST, self.said.append, lambda: self.now)
        self.cookie = ""
        self.enter(self.door.new_code())

    def enter(self, code: str) -> None:
        """Come in with a code."""
        answer = self.post("/enter", code=code)
        assert answer.status == 303, answer.text
        self.cookie = answer.headers["set-cookie"].split(";")[0]

    def get(self, path: str, /) -> Page:
        """Ask for a page."""
        return asyncio.run(self._ask("GET", path, b""))

    def post(self, path: str, /, **fields: Any) -> Page:
        """Send a form."""
        return asyncio.run(self._ask("POST", path, urlencode(fields, doseq=True).encode()))

    async def _ask(self, method: str, path: str, body: bytes) -> Page:
        plain, _, query = path.partition("?")
        headers = {"host": HOST, "cookie": self.cookie, "origin": f"http://{HOST}"}
        headers |= {"content-length": str(len(body))}
        headers |= {"content-type": "application/x-www-form-urlencoded"}
        scope = {
            "type": "http",
            "method": method,
            "path": plain,
            "raw_path": plain.encode(),
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in headers.items() if v],
            "client": None,
            "server": None,
            "scheme": "http",
            "root_path": "",
        }
        sent = list[dict[str, Any]]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.door(scope, receive, send)
        given = {k.decode().lower(): v.decode() for k, v in sent[0]["headers"]}
        text = b"".join(message.get("body", b"") for message in sent[1:]).decode("utf-8", "replace")
        return Page(sent[0]["status"], given, text)

    def begin(self) -> str:
        """Begin a draft. Return the beginning of its paths."""
        return self.post("/new").headers["location"].removesuffix("/file")

    def answer(self, at: str, step: str, /, **fields: Any) -> Page:
        """Answer one step, and return the next page, or this one with its faults."""
        answer = self.post(f"{at}/{step}", **fields)
        return (
            self.get(answer.headers["location"].partition("#")[0])
            if answer.status == 303
            else answer
        )
