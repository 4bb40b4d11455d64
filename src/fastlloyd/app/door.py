"""Access control of the app: who may use it, and which headers every answer has.

A browser is admitted with a code that works once. The app answers only under one host name and
port, which no other program on this machine has. Pages of other servers cannot act through the
browser: a form must come from a page of the app. These rules keep out other users of the machine
and other pages. They cannot keep out programs of the same user, or extensions of the browser.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastlloyd.app.peers import is_of_another_user

CODE_SECONDS: Final = 120.0
IDLE_SECONDS: Final = 30 * 60.0
MAX_BODY: Final = 1 << 20
COOKIE: Final = "fastlloyd"
OPEN_PATHS: Final = frozenset({"/", "/enter", "/code", "/app.css", "/app.js", "/app.svg"})
_PAGE: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# a result runs nothing, sends nothing and leads nowhere
_RESULT: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none';"
    " frame-ancestors 'none'; base-uri 'none'; sandbox"
)
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}

Clock = Callable[[], float]


class Door:
    """ASGI application that passes requests to another application, or refuses them.

    host : host name under which the app answers, with the port.
    live_key : key that signs the answers to a page's script (`signed`). Each new session has a new
        key.

    Parameters
    ----------
    inside : application to which requests are passed.
    say : function that prints a new code where the app was started.
    clock : function that returns rising seconds. Tests pass their own.
    """

    def __init__(
        self,
        inside: ASGIApp,
        host: str,
        say: Callable[[str], None],
        clock: Clock = time.monotonic,
    ) -> None:
        self.host, self._inside, self._say, self._clock = host, inside, say, clock
        self._code, self._code_ends, self._session = "", 0.0, ""
        self.live_key, self.used = secrets.token_hex(32), clock()
        self._was_idle = False

    def new_code(self) -> str:
        """Return a new code: 125 random bits, as groups of letters. It works once, within two
        minutes. Earlier codes no longer work.
        """
        text = base64.b32encode(secrets.token_bytes(16)).decode().lower()[:25]
        self._code, self._code_ends = text, self._clock() + CODE_SECONDS
        return "-".join(text[i : i + 5] for i in range(0, 25, 5))

    def ask_for_code(self) -> None:
        """Print a new code in the terminal in which the app was started, unless an earlier code
        still works.
        """
        if not self._code or self._clock() >= self._code_ends:
            self._say(self.new_code())

    def enter(self, said: str) -> str | None:
        """Return the cookie of a new session for a code, or None if the code does not work. An
        earlier session ends.
        """
        given = "".join(said.split()).replace("-", "").lower()
        is_alive = bool(self._code) and self._clock() < self._code_ends
        if not is_alive or not hmac.compare_digest(given.encode(), self._code.encode()):
            return None
        self._code, self._session = "", secrets.token_urlsafe(32)
        self.live_key, self.used, self._was_idle = secrets.token_hex(32), self._clock(), False
        return f"{COOKIE}={self._session}; HttpOnly; SameSite=Strict; Path=/"

    @property
    def is_fresh(self) -> bool:
        """Return whether the session entered a code so recently that budget may be spent without
        another code.
        """
        return not self._was_idle and self._clock() - self.used < IDLE_SECONDS

    @property
    def seconds_unused(self) -> float:
        """Seconds since the last page or form that a user asked for."""
        return self._clock() - self.used

    def signed(self, nonce: str, said: str) -> str:
        """Return the code that shows that an answer is from this app: an HMAC, 64 hex digits.

        nonce : random number that the page chose for this answer.
        said : text of the answer.
        """
        message = f"{nonce}\n{said}".encode()
        return hmac.new(bytes.fromhex(self.live_key), message, hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        headers, is_twice = _headers(scope)
        path = scope["path"]
        refusal = (400, "A header was sent twice.") if is_twice else self._refusal(scope, headers)
        is_result = path.endswith("/result.html")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = {"content-security-policy": _RESULT if is_result else _PAGE}
                more = {**_HEADERS, **policy}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in more.items()),
                ]
            await send(message)

        if refusal is not None:
            answer = PlainTextResponse(f"{refusal[1]}\n", refusal[0])
            await answer(scope, receive, with_headers)
            return
        is_known = self._knows(headers.get("cookie", ""))
        if not is_known and path not in OPEN_PATHS:
            await RedirectResponse("/", 303)(scope, receive, with_headers)
            return
        if is_known and not path.endswith("/live"):
            self._use()
        scope["door"], scope["is_known"] = self, is_known
        await self._inside(scope, _limited(receive), with_headers)

    def _use(self) -> None:
        self._was_idle, self.used = not self.is_fresh, self._clock()

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return the status and the reason with which a request is refused, or None."""
        if headers.get("host") != self.host:  # another name may lead to this machine, too
            return 421, "This address is not that of the app."
        if scope["client"] and scope["server"]:
            ends = tuple(scope["client"][:2]), tuple(scope["server"][:2])
            if is_of_another_user(*ends):
                return 403, "Only the user who started the app may use it."
        method = scope["method"]
        if method == "POST":
            return self._refusal_of_form(headers)
        if method not in ("GET", "HEAD"):
            return 405, "This address answers only requests for pages and forms."
        is_foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if is_foreign and headers.get("sec-fetch-dest") != "document":
            return 403, "Other websites may not use this address. Open the app itself."
        return None

    def _refusal_of_form(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is None and origin is None:
            return 403, (
                "The browser did not say which page the form comes from. Use another browser."
            )
        if site not in (None, "same-origin") or origin not in (None, f"http://{self.host}"):
            return 403, "A form must come from a page of the app."
        kind = headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            return 415, "The app accepts only plain forms, and takes no uploaded files."
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            return 411, "The length of the form is missing."
        return (413, "The form is too long.") if int(length) > MAX_BODY else None

    def _knows(self, cookies: str) -> bool:
        try:
            found = SimpleCookie(cookies).get(COOKIE)
        except CookieError:
            return False
        given = "" if found is None else found.value
        return bool(self._session) and hmac.compare_digest(given.encode(), self._session.encode())


def _headers(scope: Scope) -> tuple[dict[str, str], bool]:
    """Return the headers by name, and whether a header on which access depends was sent twice."""
    pairs = [(k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in scope["headers"]]
    names = [name for name, _ in pairs]
    once = ("host", "origin", "cookie", "content-length", "content-type", "sec-fetch-site")
    return dict(pairs), any(names.count(name) > 1 for name in once)


def _limited(receive: Receive) -> Receive:
    """Return a function that receives a body as `receive` does. It ends the connection if the body
    is larger than `MAX_BODY` bytes.
    """
    left = MAX_BODY

    async def limited() -> Any:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return {"type": "http.disconnect"} if left < 0 else message

    return limited
