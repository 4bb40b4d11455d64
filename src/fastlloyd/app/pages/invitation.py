"""Step 2 of a study: the user names the plan file that was sent, and types its digest, which the
sender told the user in another way, such as by telephone.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault, sentence_of
from fastlloyd.app.drafts import Answers
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import BACK, STUDY, elsewhere, form, h, page, text_field
from fastlloyd.app.looking import check_is_plain_file, check_path
from fastlloyd.app.pages.file import FORM, files_in, picked
from fastlloyd.app.pages.identity import public_of
from fastlloyd.app.site import (
    Site,
    answered,
    beside,
    go,
    gone_back,
    id_of,
    missing_step,
    shown_at,
    step_before,
    steps,
)
from fastlloyd.base.names import listing
from fastlloyd.base.sealed_toml import load_text
from fastlloyd.errors import CHANGED_FILE, DataError, FastLloydError, PlanError
from fastlloyd.federation.identity.identity import PublicIdentity
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.jobs.digests import DIGITS, bare, is_any_digest, is_digest_of, mistyped, other_number
from fastlloyd.jobs.join_file import id_of_run
from fastlloyd.jobs.parties import check_member

_OF_PLAN = ("key",)
_OF_PLANS = ("fastlloyd plan", "protocol_version")
_ENDINGS = (".toml", ".txt")


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step, which asks for the plan and its digest."""
    name = id_of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "invitation", STUDY):
        return go(f"/study/{name}/{before}")
    shown = _shown(answers)
    return await _page(site, name, answers, shown["plan"], shown["digest"])


def _shown(answers: Answers) -> dict[str, str]:
    """Return the texts for the fields when the page is opened."""
    given = {"plan": answers.get("plan_path", ""), "digest": ""}
    return shown_at(answers, "invitation", given)


async def _page(
    site: Site,
    name: str,
    answers: Answers,
    path: str,
    digest: str,
    faults: tuple[FieldFault, ...] = (),
) -> Response:
    folder = answers.get("plan_folder") or str(Path(path).parent if path else site.results)
    return page(
        "Which study?",
        h(
            "p",
            "The person who invites you sends a plan, a file such as plan.toml. Somebody may change"
            " it on its way. Its digest shows that: 64 letters and digits that belong to this plan"
            " alone. Call that person at a number that you know from elsewhere, let the digest be"
            " read to you, and type what you hear.",
        ),
        form(
            f"/study/{name}/invitation",
            text_field(
                "plan",
                "Path of the plan",
                path,
                faults,
                hint="The full path on this machine, such as /data/plan.toml",
            ),
            text_field(
                "digest",
                "Digest, as you heard it",
                digest,
                faults,
                hint=f"{DIGITS} letters and digits, in 16 groups of four. Spaces do not matter. The"
                " app compares all of them with the plan.",
            ),
            keeps=True,
            field=FORM,
        ),
        await beside(files_in, f"/study/{name}/plan-folder", folder, _ENDINGS),
        elsewhere("fastlloyd plan digest plan.toml\nfastlloyd plan explain plan.toml"),
        faults=faults,
        steps=steps(name, answers, "invitation", STUDY),
    )


async def choose(site: Site, request: Request) -> Response:
    """Handle the choice of a path: list the folder that the user chose, or use the chosen plan."""
    name, given = id_of(request), await Form.of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "invitation", STUDY):
        return go(f"/study/{name}/{before}")
    found, fault = picked(given)
    path, digest = found.get("path") or given.path("plan"), given.text("digest")
    if fault is not None:
        return await _page(site, name, answers, path, digest, (FieldFault("plan", fault.sentence),))
    answers = gone_back(answers, "invitation", {"plan": path, "digest": digest}, _shown(answers))
    found = {"plan_folder": found["folder"]} if "folder" in found else {}
    site.studies.save(name, answers | found)
    return go(f"/study/{name}/invitation#plan")


async def take(site: Site, request: Request) -> Response:
    """Compare the typed digest with the digest of the plan. If it is right, lead to the step that
    shows the plan.
    """
    name, form_ = id_of(request), await Form.of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "invitation", STUDY):
        return go(f"/study/{name}/{before}")
    path, digest, key = form_.path("plan"), form_.text("digest"), answers["key"]
    if form_.text("go") == BACK:
        typed = {"plan": path, "digest": digest}
        site.studies.save(name, gone_back(answers, "invitation", typed, _shown(answers)))
        return go(f"/study/{name}/{step_before('invitation', STUDY)}")

    async def shown(fault: FieldFault) -> Response:
        return await _page(site, name, answers, path, digest, (fault,))

    try:
        plan = await beside(plan_in, path)
    except DataError as error:
        return await shown(FieldFault("plan", f"{error}"))
    except FastLloydError as error:
        return await shown(FieldFault("plan", sentence_of(error)))
    if said := _difference(plan, digest):
        return await shown(FieldFault("digest", said))
    try:
        member = await beside(_member, key, plan)
    except FastLloydError as error:
        return await shown(FieldFault("plan", sentence_of(error)))
    if site.runs.is_begun(id_of_run(plan, member)):
        return go(f"/runs/{id_of_run(plan, member)}")
    if bare(digest) != answers.get("digest"):
        answers = {each: answers[each] for each in _OF_PLAN} | {"done": ["identity"]}
    found = {"plan_path": path, "plan": plan.to_toml(), "digest": plan.digest.hex()}
    site.studies.save(name, answered(answers | found, "invitation", STUDY))
    return go(f"/study/{name}/plan")


def _member(key: str, plan: Plan) -> PublicIdentity:
    """Return the public part of an identity. Raises PlanError unless it is a client of the plan."""
    member = public_of(key)
    if member.name not in plan.names:
        raise PlanError(
            f"the plan is for {listing(plan.names)}, and your identity is {member.name!r}; use the"
            " identity whose public file you sent, or ask the person who invites you"
        )
    check_member(member, plan, Path(key))
    return member


def plan_in(path: str) -> Plan:
    """Return the plan in a file. Raises DataError or PlanError if it cannot be used."""
    check_path(path)
    check_is_plain_file(path)
    text = load_text(Path(path))
    if not any(each in text for each in _OF_PLANS):
        raise DataError(
            "This file is not a plan. Choose the file that the person who invites you sent, such as"
            " plan.toml. If only its text came, in a mail, ask for the file."
        )
    try:
        plan = Plan.from_toml(text, path)
    except PlanError as error:
        if error.code is not CHANGED_FILE:
            raise
        raise DataError(
            "This plan was changed after it was made, or damaged on its way. Do not take part with"
            " it: ask the person who invites you to send it again, as an attachment."
        ) from None
    plan.check_networked()
    return plan


def _difference(plan: Plan, digest: str) -> str:
    """Return a sentence about a digest that differs from the digest of the plan, or "" if they are
    equal. The sentence never shows the plan's own digest, which must come over another channel.
    """
    if is_digest_of(plan, digest):
        return ""
    if not digest:
        return "Type the digest that you heard."
    if what := mistyped(bare(digest), plan.digest.hex()):
        return f"Almost: {what}. Listen again."
    if bare(digest) == plan.run_id:
        return "This is the number of the run, not the digest. Ask for the digest of the plan."
    if not is_any_digest(digest):
        return f"A digest has {DIGITS} characters, 0 to 9 and a to f; here are {len(bare(digest))}."
    if what := other_number(plan, bare(digest)):
        return f"This is {what}, not the digest. Ask for the digest of the plan."
    return (
        "This file is another plan than the one you were told of. Do not take part with it. Ask"
        " for the plan again."
    )
