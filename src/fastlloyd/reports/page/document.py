"""Parts that every page has: the document, the warnings, and the end."""

from functools import cache
from importlib import resources
from typing import Final, LiteralString

from fastlloyd.base.markup import Child, Markup, constant, element, script, style, together
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.reports.page.run_view import RunView

HEADING: LiteralString = "<!doctype html>\n"
BEGINNING: Final = f'{HEADING}<html lang="en"><head><meta charset="utf-8"><title>'
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


@cache
def _style() -> Markup:
    return style(resources.files(__package__).joinpath("style.css").read_text("utf-8"))


def document(
    title: str, content: list[Child], code: LiteralString = "", *, with_images: bool = False
) -> bytes:
    """Return a whole HTML document. It loads nothing else, and runs no script except `code`.

    with_images : whether the content has images (data URIs).
    """
    made, source = script(code)
    policy = f"{POLICY}; script-src {source}" if code else POLICY
    policy += "; img-src data:" if with_images else ""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("title", title, " · fastlloyd"),  # first: it tells kinds of pages apart
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="color-scheme", content="light dark"),
        _style(),
    )
    body = element("body", element("main", content), made if code else None)
    whole = together(constant(HEADING), element("html", head, body, lang="en"), "\n")
    return whole.text.encode()


def warnings(run: RunView) -> list[Child]:
    """Return the warnings on top of the page, the most important first."""
    found: list[Child] = []
    plan, taken = run.plan, run.mechanism.taken_from_the_data
    if not run.has_noise:
        found.append(_warning(run, "warn_not_private", run.said("warn_no_noise")))
    elif taken:
        words = run.said("warn_taken", taken="; ".join(taken))
        found.append(_warning(run, "warn_not_private", words))
    if plan is not None and plan.simulated:
        words = run.said("warn_simulated", n=plan.n_clients)
        found.append(_warning(run, "warn_simulation", words))
    elif plan is not None and plan.trust is TrustMode.SERVER_NOISE:
        words = run.said("warn_server_noise")
        found.append(_warning(run, "warn_not_for_publication", words))
    return found


def _warning(run: RunView, mark: str, words: Markup) -> Markup:
    return element("p", element("b", run.said(mark)), " ", words, class_="warn")


def footer(run: RunView) -> Markup:
    """Return the end of a page, which names the files from which the page is made."""
    name = "footer" if run.is_private else "footer_not_private"
    version, files = run.privacy["fastlloyd_version"], ", ".join(run.files)
    return element("footer", element("p", run.said(name, version=version, files=files)))
