"""Step 1: the file of the records."""

import os
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault
from fastlloyd.app.drafts import TYPED, Answers
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import BACK, elsewhere, form, h, page, radio_fields, text_field
from fastlloyd.app.looking import FileQuestion, check_path, seen_in_a_process
from fastlloyd.app.site import Site, answered, beside, go, gone_back, id_of, shown_at, steps
from fastlloyd.base.markup import Markup
from fastlloyd.errors import DataError
from fastlloyd.records.layout import NO, YES

_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".npy", ".npz", ".gz")
_SHOWN = 200
FORM: Final = "choosing"  # id of the form that has the path of the file
_OF_OLDER = ("chosen", "features", "id", TYPED)


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step, on which the user chooses a file."""
    shown = _shown(site.drafts.load(id_of(request)))
    return await _page(site, request, shown["path"], shown["header"])


def _shown(answers: Answers) -> Answers:
    """Return the texts for the fields of this step."""
    given = {field: answers.get(field, "") for field in ("path", "header")}
    return shown_at(answers, "file", given)


async def _page(
    site: Site, request: Request, path: str, header: str, faults: tuple[FieldFault, ...] = ()
) -> Response:
    name = id_of(request)
    answers = site.drafts.load(name)
    folder = answers.get("folder") or str(site.results)
    return page(
        "Which records?",
        h(
            "p",
            "A table with one record in each row. The file stays where it is: the app opens it by"
            " its path and copies nothing.",
        ),
        form(
            f"/new/{name}/file",
            *fields(path, header, faults),
            keeps=True,
            field=FORM,
        ),
        await beside(files_in, f"/new/{name}/folder", folder),
        elsewhere(f"fastlloyd recipe new {path or 'FILE'}"),
        faults=faults,
        steps=steps(name, answers, "file"),
    )


def fields(path: str, header: str, faults: tuple[FieldFault, ...]) -> tuple[Markup, Markup]:
    """Return the fields for the path of a file, and for the meaning of its first line."""
    return (
        text_field(
            "path",
            "Path of the file",
            path,
            faults,
            hint="The full path on this machine, such as /data/records.csv",
        ),
        radio_fields(
            "header",
            "The first line of the table ...",
            (
                (YES, "names the columns", "The names are shown on the next page."),
                (NO, "is already a record", "The columns are then called x1, x2, ..."),
            ),
            header,
            faults,
            hint="For CSV and other text. Parquet and Arrow files have their names inside.",
        ),
    )


def files_in(action: str, folder: str, endings: tuple[str, ...] = _ENDINGS) -> Markup:
    """Return the content of a folder as a list from which the user chooses a file.

    action : path to which the choice is sent, with the fields of the form `FORM`.
    endings : endings of the names of the files in the list.
    """
    try:
        found = sorted(os.scandir(folder), key=lambda each: (not each.is_dir(), each.name.lower()))
    except OSError as error:
        return h("p", f"The folder {folder} cannot be opened: {error.strerror}.", class_="note")
    shown = [
        each
        for each in found
        if not each.name.startswith(".")
        and (each.is_dir() or (each.is_file() and each.name.lower().endswith(endings)))
    ]
    buttons = [
        h(
            "li",
            h(
                "button",
                f"{each.name}/" if each.is_dir() else each.name,
                name="folder" if each.is_dir() else "chosen",
                value=each.path,
                class_="second",
                form=FORM,
                formaction=action,
            ),
        )
        for each in shown[:_SHOWN]
    ]
    above = h(
        "li",
        h(
            "button",
            "The folder above",
            name="folder",
            value=str(Path(folder).parent),
            class_="second",
            form=FORM,
            formaction=action,
        ),
    )
    more = f"{len(shown) - _SHOWN} more are not shown; type the path." if shown[_SHOWN:] else None
    return h(
        "details",
        h("summary", "Look for the file"),
        h("p", folder),
        h("ul", above, buttons, class_="files"),
        h("p", more) if more else None,
        open=True if buttons else None,
    )


async def choose(site: Site, request: Request) -> Response:
    """Handle the choice of a path: list the folder that the user chose, or use the chosen file.
    What was typed on the page is kept.
    """
    name, given = id_of(request), await Form.of(request)
    typed = {"path": given.path("path"), "header": given.text("header")}
    found, fault = picked(given)
    typed["path"] = found.pop("path", typed["path"])
    if fault is not None:
        return await _page(site, request, typed["path"], typed["header"], (fault,))
    answers = site.drafts.load(name)
    answers = gone_back(answers, "file", typed, _shown(answers))
    site.drafts.save(name, answers | found)
    return go(f"/new/{name}/file#path")


def picked(given: Form) -> tuple[Answers, FieldFault | None]:
    """Return the folder or file that was chosen from a list, as answers of a draft. A path that
    cannot be used comes with its fault.
    """
    for key, field in (("path", "chosen"), ("folder", "folder")):
        if path := given.text(field):
            try:
                check_path(path)
            except DataError as error:
                return {"path": path}, FieldFault("path", str(error))
            return {key: path}, None
    return {}, None


async def take(site: Site, request: Request) -> Response:
    """Look at the file, and lead to the next step."""
    name, given = id_of(request), await Form.of(request)
    path, header = given.path("path"), given.text("header")
    answers = site.drafts.load(name)
    if given.text("go") == BACK:
        typed = {"path": path, "header": header}
        site.drafts.save(name, gone_back(answers, "file", typed, _shown(answers)))
        return go("/")
    found, faults = await seen(path, header)
    if found is None:
        return await _page(site, request, path, header, faults)
    if answers.get("path") != path or answers.get("header") != header:
        answers = {key: value for key, value in answers.items() if key not in _OF_OLDER}
        answers["done"] = []
    site.drafts.save(name, answered(answers | found, "file"))
    return go(f"/new/{name}/protect")


async def seen(path: str, header: str) -> tuple[Answers | None, tuple[FieldFault, ...]]:
    """Look at a file. Return the answers about the file for a draft, or None and the faults."""
    faults = list[FieldFault]()
    if header not in (YES, NO):
        faults.append(FieldFault("header", "Say what the first line is."))
    try:
        check_path(path)
    except DataError as error:
        faults.append(FieldFault("path", str(error)))
    if faults:
        return None, tuple(faults)
    seen_ = await beside(seen_in_a_process, FileQuestion(path=path, header=header))
    if seen_.fault or seen_.files is None:
        fault = seen_.fault or "The file cannot be found any more."
        return None, (FieldFault(seen_.field, fault),)
    return {
        "path": path,
        "header": header,
        "folder": str(Path(path).parent),
        "files": msgspec.to_builtins(seen_.files),
        "layout": None if seen_.layout is None else msgspec.to_builtins(seen_.layout),
        "doubts": list(seen_.doubts),
        "columns": [msgspec.to_builtins(each, enc_hook=str) for each in seen_.columns],
    }, ()
