"""Step 2 of a study: the plan that was sent, and its digest as the user heard it."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault, sentence_of
from fastlloyd.app.drafts import Answers
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import STUDY, elsewhere, form, h, page, text_field
from fastlloyd.app.looking import check_is_plain_file, check_path
from fastlloyd.app.pages.identity import public_of
from fastlloyd.app.site import Site, answered, beside, go, id_of, missing_step, steps
from fastlloyd.base.sealed_toml import load_text
from fastlloyd.errors import DataError, FastLloydError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.jobs.digests import DIGITS, bare, is_any_digest, is_digest_of, mistyped, other_number
from fastlloyd.jobs.join_file import id_of_run
from fastlloyd.jobs.parties import check_member

_OF_PLAN = ("key",)


async def show(site: Site, request: Request) -> Response:
    """Return the page."""
    name = id_of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "invitation", STUDY):
        return go(f"/study/{name}/{before}")
    return _page(name, answers, answers.get("plan_path", ""), "")


def _page(
    name: str, answers: Answers, path: str, digest: str, faults: tuple[FieldFault, ...] = ()
) -> Response:
    return page(
        "Which study?",
        h(
            "p",
            "The person who invites you sends a plan. Somebody may change it on its way. So let"
            " somebody who has it read its digest to you: call a number that you know from"
            " elsewhere, and type what you hear.",
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
            back=f"/study/{name}/identity",
        ),
        elsewhere("fastlloyd plan digest plan.toml\nfastlloyd plan explain plan.toml"),
        faults=faults,
        steps=steps(name, answers, "invitation", STUDY),
    )


async def take(site: Site, request: Request) -> Response:
    """Compare the digest with that of the plan. If it is right, lead to the step that shows the
    plan.
    """
    name, form_ = id_of(request), await Form.of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "invitation", STUDY):
        return go(f"/study/{name}/{before}")
    path, digest, key = form_.text("plan"), form_.text("digest"), answers["key"]
    try:
        plan = await beside(plan_in, path)
    except DataError as error:
        return _page(name, answers, path, digest, (FieldFault("plan", f"{error}"),))
    except FastLloydError as error:
        return _page(name, answers, path, digest, (FieldFault("plan", sentence_of(error)),))
    if said := _difference(plan, digest):
        return _page(name, answers, path, digest, (FieldFault("digest", said),))
    try:
        member = await beside(public_of, key)
        check_member(member, plan, Path(key))
    except FastLloydError as error:
        return _page(name, answers, path, digest, (FieldFault("plan", sentence_of(error)),))
    if site.runs.is_begun(id_of_run(plan, member)):
        return go(f"/runs/{id_of_run(plan, member)}")
    if bare(digest) != answers.get("digest"):
        answers = {each: answers[each] for each in _OF_PLAN} | {"done": ["identity"]}
    found = {"plan_path": path, "plan": plan.to_toml(), "digest": plan.digest.hex()}
    site.studies.save(name, answered(answers | found, "invitation", STUDY))
    return go(f"/study/{name}/plan")


def plan_in(path: str) -> Plan:
    """Return the plan in a file. Raises DataError or PlanError if it cannot be used."""
    check_path(path)
    check_is_plain_file(path)
    plan = Plan.from_toml(load_text(Path(path)), path)
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
