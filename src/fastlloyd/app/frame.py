"""Frame of a page: its head, navigation and steps, and the parts of forms."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from starlette.responses import HTMLResponse

from fastlloyd.app.answers import FieldFault, as_sentence
from fastlloyd.base.markup import Child, Markup, constant, element, together

h = element


class Flow(NamedTuple):
    """Pages that lead to a run.

    root : beginning of their paths.
    steps : dict from each step to its readable name, in order.
    """

    root: str
    steps: Mapping[str, str]


GROUPS: Final = Flow(
    "/new",
    {
        "file": "Records",
        "protect": "Who is protected",
        "bounds": "Bounds",
        "privacy": "Groups and privacy",
        "confirm": "Confirm",
    },
)
STUDY: Final = Flow(
    "/study",
    {
        "identity": "Identity",
        "invitation": "Invitation",
        "plan": "Plan",
        "approval": "Approval",
        "records": "Records",
        "rehearsal": "Rehearsal",
    },
)
BACK: Final = "back"  # value of the button that leads to the step before
_NAVIGATION: Final = (("/", "Start"), ("/ledger", "Ledger"))


def page(
    title: str,
    *body: Child,
    faults: Sequence[FieldFault] = (),
    here: str = "",
    steps: Markup | None = None,
    status: int = 200,
) -> HTMLResponse:
    """Return a page.

    title : heading of the page.
    body : content below the heading.
    faults : faults, which are summed up above the content, each with a link to its field.
    here : path of the page in the navigation.
    steps : list of the steps (`steps_of`), or None.
    status : status of the answer.
    """
    links = [
        h("a", name, href=path, aria_current="page" if path == here else None)
        for path, name in _NAVIGATION
    ]
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("title", f"{'Error: ' if faults else ''}{title} - fastlloyd"),
        h("link", rel="icon", href="/app.svg"),
        h("link", rel="stylesheet", href="/app.css"),
        h("script", src="/app.js", defer=True),
    )
    top = h(
        "header",
        h(
            "div",
            h("b", "fastlloyd"),
            h("nav", links, aria_label="Pages"),
            h("span", "Pages of this machine only", class_="aside"),
        ),
        class_="top",
    )
    whole = h(
        "html",
        head,
        h(
            "body",
            h("a", "Skip to the content", href="#content", class_="skip"),
            top,
            h("main", steps, h("h1", title), _summed_up(faults), *body, id="content"),
        ),
        lang="en-GB",
    )
    # names of files need not be UTF-8
    text = together(constant("<!doctype html>"), whole).text.encode("utf-8", "replace")
    return HTMLResponse(text, status)


def _summed_up(faults: Sequence[FieldFault]) -> Markup | None:
    if not faults:
        return None
    items = [
        h("li", h("a", said, href=f"#{fault.field}") if fault.field else said)
        for fault in faults
        for said in (as_sentence(fault.sentence),)
    ]
    heading = "Please correct this" if len(faults) == 1 else "Please correct these"
    return h(
        "div",
        h("p", h("b", heading)),
        h("ul", items),
        class_="faults",
        role="alert",
        tabindex="-1",
    )


def steps_of(flow: Flow, draft: str, at: str, done: Sequence[str]) -> Markup:
    """Return the list of the steps of a draft.

    at : step of the page.
    done : steps that were answered. Each has a link.
    """
    items = [
        h(
            "li",
            h("a", name, href=f"{flow.root}/{draft}/{step}")
            if step in done and step != at
            else name,
            aria_current="step" if step == at else None,
        )
        for step, name in flow.steps.items()
    ]
    return h("nav", h("ol", items, class_="steps"), aria_label="Steps")


def form(
    action: str,
    *body: Child,
    label: str = "Continue",
    back: str | None = None,
    keeps: bool = False,
    field: str | None = None,
) -> Markup:
    """Return a form with its buttons.

    label : text of the button that sends the form.
    back : path of the page before, or None.
    keeps : whether the button to the page before sends the form, so that its texts are kept.
    field : id of the form, for buttons outside it, or None.
    """
    link = h("a", "Back", href=back, class_="button second") if back else None
    return h(
        "form",
        *body,
        h(
            "div",
            h("button", label, type="submit"),
            back_button() if keeps else link,
            class_="acts",
        ),
        method="post",
        action=action,
        autocomplete="off",
        id=field,
    )


def act(action: str, button: Markup, *beside: Child, data_running: bool | None = None) -> Markup:
    """Return a form with one button, and what stands beside it.

    data_running : True if the form is shown only while a run is under way.
    """
    return h(
        "form",
        button,
        *beside,
        method="post",
        action=action,
        class_="acts",
        data_running=data_running,
    )


def table(
    heads: Sequence[Child], rows: Iterable[Child], caption: Child = None, kind: str | None = None
) -> Markup:
    """Return a table that scrolls on a narrow screen.

    heads : headings of the columns. None makes an empty cell.
    kind : class of the table.
    """
    head = h("tr", [h("td") if text is None else h("th", text, scope="col") for text in heads])
    above = None if caption is None else h("caption", caption)
    whole = h("table", above, h("thead", head), h("tbody", rows), class_=kind)
    return h("div", whole, class_="scroll")


def back_button() -> Markup:
    """Return the button that leads to the step before, and sends what was typed."""
    return h("button", "Back", name="go", value=BACK, class_="second")


def fault_at(field: str, faults: Sequence[FieldFault]) -> Markup | None:
    """Return the sentences about a field, or None."""
    said = [as_sentence(fault.sentence) for fault in faults if fault.field == field]
    return h("span", " ".join(said), class_="fault", id=f"{field}-fault") if said else None


def told_by(field: str, faults: Sequence[FieldFault], *, has_hint: bool) -> dict[str, str | None]:
    """Return the HTML attributes that connect a field with its hint and its faults."""
    is_wrong = any(fault.field == field for fault in faults)
    ids = [f"{field}-hint"] * has_hint + [f"{field}-fault"] * is_wrong
    return {
        "aria_describedby": " ".join(ids) or None,
        "aria_invalid": "true" if is_wrong else None,
    }


def text_field(
    field: str,
    label: Child,
    value: str,
    faults: Sequence[FieldFault] = (),
    *,
    hint: str = "",
    is_short: bool = False,
    offers: Sequence[str] = (),
    is_number: bool = False,
) -> Markup:
    """Return a field for a text.

    field : id and name of the field.
    label : label above it.
    value : text in it.
    hint : sentence below the label, or "".
    is_short : whether the field is narrow.
    offers : texts that the browser suggests.
    is_number : whether a phone shows a keyboard of digits.
    """
    listed = f"{field}-offers" if offers else None
    attributes = told_by(field, faults, has_hint=bool(hint))
    return h(
        "div",
        h("label", label, for_=field),
        h("span", hint, class_="hint", id=f"{field}-hint") if hint else None,
        fault_at(field, faults),
        h(
            "input",
            type="text",
            id=field,
            name=field,
            value=value,
            spellcheck="false",
            inputmode="decimal" if is_number else None,
            class_="short" if is_short else None,
            list=listed,
            **attributes,
        ),
        h("datalist", [h("option", value=each) for each in offers], id=listed) if offers else None,
        class_="field",
    )


def select_field(
    field: str,
    label: Child,
    options: Sequence[tuple[str, str]],
    value: str,
    faults: Sequence[FieldFault] = (),
    *,
    hint: str = "",
) -> Markup:
    """Return a field for a choice from a list of values with their texts."""
    listed = [
        h("option", text, value=name, selected=name == value or None) for name, text in options
    ]
    attributes = told_by(field, faults, has_hint=bool(hint))
    return h(
        "div",
        h("label", label, for_=field),
        h("span", hint, class_="hint", id=f"{field}-hint") if hint else None,
        fault_at(field, faults),
        h("select", listed, id=field, name=field, **attributes),
        class_="field",
    )


def radio_fields(
    field: str,
    legend: Child,
    options: Sequence[tuple[str, str, str]],
    value: str,
    faults: Sequence[FieldFault] = (),
    *more: Child,
    hint: str = "",
) -> Markup:
    """Return a group of fields for one choice.

    options : value, text and explanation of each.
    more : further content of the group.
    """
    choices = [
        h(
            "label",
            h(
                "input",
                type="radio",
                name=field,
                value=name,
                id=field if number == 0 else f"{field}-{number}",
                checked=name == value or None,
            ),
            h("span", h("b", text), h("span", said, class_="hint") if said else None),
            class_="choice",
        )
        for number, (name, text, said) in enumerate(options)
    ]
    return h(
        "fieldset",
        h("legend", legend),
        h("span", hint, class_="hint") if hint else None,
        fault_at(field, faults),
        choices,
        *more,
    )


def box(field: str, text: str, *, is_ticked: bool = False) -> Markup:
    """Return a checkbox with its text."""
    ticked = True if is_ticked else None
    return h(
        "label",
        h("input", type="checkbox", name=field, value="yes", id=field, checked=ticked),
        h("span", text),
        class_="choice",
    )


def elsewhere(command: str, python: str = "") -> Markup:
    """Return the part of a page that shows the same step as commands and as Python code."""
    return h(
        "details",
        h("summary", "The same on the command line and in Python"),
        h("pre", h("code", command)),
        h("pre", h("code", python)) if python else None,
    )
