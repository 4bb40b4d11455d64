"""Part of a page in which a script shows the progress of work: its state, its step and its end.

The answers to the script are data, signed with the key that the page was given. At the first answer
without this signature, the script stops.
"""

import json
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from fastlloyd.app.frame import h
from fastlloyd.app.site import door_of
from fastlloyd.base.markup import Markup
from fastlloyd.jobs.live import Live

RUN_GOES_ON: Final = "Close this tab. The run goes on without it; start "


def followed(
    request: Request,
    state: str,
    step: str,
    end: tuple[str, str],
    live: Live | None = None,
    gone: str = RUN_GOES_ON,
) -> Markup:
    """Return the part of the page for `request` that shows the progress. The script of the page
    asks for it at the path of the page with "/live" added.

    state, step : state and step of the work, as sentences.
    end : path and text of the link that is shown at the end.
    live : file of progress, or None. It has the number of rounds that are done.
    gone : beginning of the sentence that says what to do if the app does not answer.
    """
    path, (n_done, n_rounds) = request.url.path, _rounds(live)
    return h(
        "div",
        h(
            "div",
            h("p", state, role="status", data_state=True),
            h(
                "progress",
                max=n_rounds or None,
                value=n_done if n_rounds else None,
                aria_label="Rounds that are done" if n_rounds else "Under way",
            ),
            h("p", step, data_step=True, class_="soft"),
            h("p", h("a", end[1], href=end[0], class_="button"), data_over=True, hidden=True),
            data_live=f"{path}/live",
            data_key=door_of(request).live_key,
        ),
        h(
            "p",
            h("b", "The app does not answer. "),
            gone,
            h("code", "fastlloyd app"),
            " again to see it.",
            class_="warn",
            role="alert",
            data_gone=True,
            hidden=True,
        ),
        h("noscript", h("p", h("a", "Look again", href=path))),
    )


def answer(
    request: Request, state: str, step: str, live: Live | None = None, *, is_over: bool
) -> Response:
    """Return the state of the work to the script of its page, signed together with the number that
    the script sent.
    """
    nonce = request.query_params.get("nonce", "")
    if not (nonce.isascii() and 16 <= len(nonce) <= 64):
        said = "This page is out of date, so nothing was done. Go back to the page of the run.\n"
        return PlainTextResponse(said, 400)
    n_done, n_rounds = _rounds(live)
    said = json.dumps(
        {"state": state, "step": step, "round": n_done, "of": n_rounds, "over": is_over}
    )
    return JSONResponse({"said": said, "mac": door_of(request).signed(nonce, said)})


def _rounds(live: Live | None) -> tuple[int, int]:
    """Return the number of rounds that are done, and of all rounds, or zeros if not known."""
    return (0, 0) if live is None else (live.sight.n_closed, live.sight.n_rounds)
