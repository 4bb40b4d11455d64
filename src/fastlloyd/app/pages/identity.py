"""Step 1 of a study: the identity of this organisation, made or chosen."""

import re
import subprocess  # nosec B404 - runs this very program
import sys
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault, sentence_of
from fastlloyd.app.drafts import Answers
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import STUDY, box, elsewhere, form, h, page, text_field
from fastlloyd.app.looking import check_is_plain_file, check_path
from fastlloyd.app.site import Site, answered, beside, go, id_of, steps
from fastlloyd.base.markup import Child, Markup
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.errors import DataError, FastLloydError, StateError
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.store.files import IDENTITY_SUFFIX

NEW: str = "new-identity"
_SECONDS = 120
_LONGEST = 63
_NAME = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{_LONGEST - 1}}}")
Given = dict[str, Any]


async def begin(site: Site, _request: Request) -> Response:
    """Make a draft for the user's part in a study, and go to the first step."""
    return go(f"/study/{site.studies.new()}/identity")


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step, on which the user makes or chooses an identity."""
    name = id_of(request)
    answers = site.studies.load(name)
    errand = site.errands.of(name, NEW)
    if errand is not None and errand.state != "over":
        return go(f"/study/{name}/wait")
    faults = (FieldFault("", errand.fault),) if errand is not None and errand.fault else ()
    return await _page(site, name, answers, answers.get("asked", {}), faults)


async def _page(
    site: Site, name: str, answers: Answers, given: Given, faults: tuple[FieldFault, ...]
) -> Response:
    have = answers.get("key", "")
    bill = None
    if have and not faults:
        try:
            bill = _bill(have, await beside(public_of, have))
        except FastLloydError as error:
            faults = (FieldFault("key", sentence_of(error)),)
    known = await beside(_known, site)
    forms = [_choose(name, known, given, faults), _make(site, name, given, faults)]
    if not known:
        forms.reverse()
    return page(
        "Your identity",
        h(
            "p",
            "An identity shows the others that it is your organisation that takes part. It is two"
            " files: one to keep, and one to send to the person who invites you.",
        ),
        bill,
        h(
            "div",
            h("a", "I have the plan", href=f"/study/{name}/invitation", class_="button"),
            h("a", "Wait for the plan", href="/", class_="button second"),
            class_="acts",
        )
        if bill
        else None,
        h("details", h("summary", "Use another identity"), *forms, open=True if faults else None)
        if bill
        else forms,
        elsewhere("fastlloyd keygen --name clinic-a --passphrase"),
        faults=faults,
        steps=steps(name, answers, "identity", STUDY),
    )


def _known(site: Site) -> list[str]:
    """Return the paths of identities to offer: those of recent studies, and those in the folder in
    which the app proposes to make one.
    """
    used = [each["key"] for _, each in site.studies.recent() if "key" in each]
    there = sorted(map(str, site.results.glob(f"*{IDENTITY_SUFFIX}")))
    return list(dict.fromkeys([*used, *there]))


def _bill(key: str, public: PublicIdentity) -> Markup:
    path = Path(key)
    is_locked = PrivateIdentity.is_under_passphrase(path)
    keys = "encrypted with the passphrase" if is_locked else "not encrypted"
    sent = path.with_name(f"{public.name}.public.toml")
    rows: list[tuple[str, Child]] = [
        ("Keep", f"{key}. It has the private keys, {keys}. Anyone who has them can act as you."),
        (
            "Send",
            (f"{sent}, to the person who makes the plan. It has no secret."),
        ),
        (
            "Say on the telephone",
            h("span", h("code", in_groups(public.fingerprint)), ", when that person calls you."),
        ),
        ("Name in the study", public.name),
        ("Valid until", f"{public.expires}"),
    ]
    return h("dl", [[h("dt", term), h("dd", said)] for term, said in rows], class_="bill")


def _choose(name: str, known: list[str], given: Given, faults: tuple[FieldFault, ...]) -> Markup:
    return h(
        "section",
        h("h2", "I have one"),
        form(
            f"/study/{name}/identity",
            text_field(
                "key",
                "Path of the private file",
                given.get("key", known[0] if known else ""),
                faults,
                hint="The full path of NAME.identity.toml on this machine.",
                offers=known,
            ),
            label="Use this identity",
        ),
    )


def _make(site: Site, name: str, given: Given, faults: tuple[FieldFault, ...]) -> Markup:
    can_ask = site.errands.ask is not None
    return h(
        "section",
        h("h2", "I need one"),
        form(
            f"/study/{name}/make",
            text_field(
                "name",
                "Name of your organisation in studies",
                given.get("name", ""),
                faults,
                hint="Small letters, digits and dashes, such as clinic-a. All others see it.",
                is_short=True,
            ),
            text_field(
                "folder",
                "Folder for the two files",
                given.get("folder", str(site.results)),
                faults,
                hint="A folder of this machine that others cannot open, or a new one.",
            ),
            box(
                "locked",
                "Encrypt the keys with a passphrase of at least 8 characters. The terminal where"
                " the app was started asks for it, now and each time you take part. Nobody can"
                " reset it.",
                is_ticked=bool(given.get("locked", can_ask)),
            )
            if can_ask
            else h(
                "p",
                "The app was started without a terminal, so it cannot ask for a passphrase. With"
                " one: ",
                h("code", "fastlloyd keygen --passphrase"),
                class_="soft",
            ),
            label="Make the identity",
        ),
    )


def public_of(key: str) -> PublicIdentity:
    """Return the public part of an identity. Raises DataError or IdentityError if the file of the
    identity cannot be used, or if the identity has expired.
    """
    check_path(key)
    check_is_plain_file(key)
    public = PrivateIdentity.public_of(Path(key))
    public.check_valid()
    return public


async def take(site: Site, request: Request) -> Response:
    """Store an existing identity in the draft, after a check."""
    name, form_ = id_of(request), await Form.of(request)
    answers, key = site.studies.load(name), form_.path("key")
    try:
        await beside(public_of, key)
    except DataError as error:
        return await _page(site, name, answers, {"key": key}, (FieldFault("key", f"{error}"),))
    except FastLloydError as error:
        fault = FieldFault("key", sentence_of(error))
        return await _page(site, name, answers, {"key": key}, (fault,))
    keep(site, name, key)
    return go(f"/study/{name}/identity")


def keep(site: Site, name: str, key: str) -> None:
    """Store an identity in a draft. If the draft had another identity, its plan is removed."""
    answers = site.studies.load(name)
    if answers.get("key") != key:
        answers = {"key": key}
    site.studies.save(name, answered(answers, "identity", STUDY))


async def make(site: Site, request: Request) -> Response:
    """Make a new identity in a child process, and store it in the draft."""
    name, form_ = id_of(request), await Form.of(request)
    given: Given = {"name": form_.text("name"), "folder": form_.path("folder")}
    given["locked"] = bool(form_.text("locked"))
    answers, faults = site.studies.load(name), list[FieldFault]()
    if not _NAME.fullmatch(given["name"]):
        faults.append(FieldFault("name", _named(given["name"])))
    folder = Path(given["folder"])
    try:
        check_path(given["folder"])
    except DataError:
        faults.append(FieldFault("folder", "Write the full path of a folder of this machine."))
    if (key := folder / f"{given['name']}.identity.toml").exists():
        faults.append(FieldFault("folder", f"{key} exists already. Choose another folder."))
    if faults:
        return await _page(site, name, answers, given, tuple(faults))

    def work(secret: str | None) -> None:
        _keygen(given["name"], folder, secret)
        keep(site, name, str(key))

    questions = (f"New passphrase for {given['name']}: ", "Repeat it: ") if given["locked"] else ()
    try:
        site.studies.save(name, answers | {"asked": given})
        site.errands.begin(name, NEW, work, questions)
    except StateError as error:
        fault = FieldFault("", sentence_of(error))
        return await _page(site, name, answers, given, (fault,))
    return go(f"/study/{name}/wait")


def _named(text: str) -> str:
    """Return a sentence that refuses a name that cannot be used, and suggests a similar name that
    can be used.
    """
    similar = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST] or "clinic-a"
    return f"Write small letters, digits and dashes, such as {similar}."


def _keygen(name: str, folder: Path, secret: str | None) -> None:
    """Make an identity by `fastlloyd keygen`. Raises StateError with the reason if it fails."""
    command = ["keygen", "--name", name, "--out", str(folder), "--json"]
    if secret is not None:
        command += ["--passphrase-file", "-"]
    # this very program, with arguments made here
    done = subprocess.run(  # noqa: S603  # nosec B603
        [sys.executable, "-P", "-m", "fastlloyd", *command],
        input="" if secret is None else f"{secret}\n",
        capture_output=True,
        timeout=_SECONDS,
        check=False,
        text=True,
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        raise StateError(said[-1].removeprefix("Error: ") if said else "no identity was made")
