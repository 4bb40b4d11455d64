"""Page that waits for an errand: for the passphrase in the terminal, and for the work after it."""

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import as_sentence
from fastlloyd.app.errands import ASKING, OVER, Errand
from fastlloyd.app.frame import STUDY, page
from fastlloyd.app.pages import identity, rehearsal
from fastlloyd.app.site import Site, go, id_of, steps
from fastlloyd.app.watching import answer, followed

_TYPE_IT = (
    "Type the passphrase in the terminal where fastlloyd app was started, and press Enter. To give"
    " up, press Enter alone."
)
_STEPS = {
    identity.NEW: ("identity", "The identity is being made."),
    rehearsal.REHEARSAL: ("rehearsal", "Your records are being read. Nothing is sent or charged."),
    rehearsal.START: ("rehearsal", "Your part in the study is being started."),
}


def words_of(errand: Errand | None) -> str:
    """Return the state of an errand in words."""
    if errand is None or errand.state == OVER:
        return "Done." if errand is None or not errand.fault else as_sentence(errand.fault)
    if errand.state == ASKING:
        return _TYPE_IT
    return _STEPS.get(errand.kind, _STEPS[rehearsal.START])[1]


async def show(site: Site, request: Request) -> Response:
    """Return the page, or lead to the step that the errand was for."""
    name = id_of(request)
    answers, errand = site.studies.load(name), site.errands.of(name)
    step = _STEPS[errand.kind][0] if errand is not None else "identity"
    if errand is None or errand.state == OVER:
        return go(f"/study/{name}/{step}")
    end = (f"/study/{name}/{step}", "Continue")
    return page(
        "One moment" if errand.state != ASKING else "Passphrase",
        followed(request, words_of(errand), "", end, gone="Close this tab. Start "),
        steps=steps(name, answers, step, STUDY),
    )


async def live(site: Site, request: Request) -> Response:
    """Return the state of the errand to the script of the page."""
    errand = site.errands.of(id_of(request))
    is_over = errand is None or errand.state == OVER
    return answer(request, words_of(errand), "", is_over=is_over)
