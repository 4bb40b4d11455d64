"""Settings of Sphinx for the documentation site (`make docs`)."""

import inspect
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from docstrings import restructured

import fastlloyd

project = "fastlloyd"
author = "The fastlloyd developers"
version = release = fastlloyd.__version__
language = "en"
extensions = ["myst_nb", "sphinx.ext.autodoc"]
nb_execution_mode = "off"  # notebooks show the outputs that are stored in them
myst_heading_anchors = 4
smartquotes = False  # two hyphens begin an option
default_role = "code"  # docstrings mark code as Markdown does
add_module_names = False
autodoc_typehints = "none"  # docstrings name types
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "inherited-members": True,
    "exclude-members": (
        "set_fit_request, set_predict_request, set_score_request, set_transform_request,"
        " get_metadata_routing, set_output, fit_transform, get_feature_names_out, get_params,"
        " set_params, with_traceback, add_note"
    ),
}
html_theme = "furo"
html_title = f"fastlloyd {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_use_index = False
html_show_search_summary = False  # a browser reads no other file from the disk
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False


def setup(app: Any) -> None:
    """Let docstrings be read as they are written, and signatures have no types."""
    app.connect("autodoc-process-docstring", _read)
    app.connect("autodoc-process-signature", _sign)
    app.connect("autodoc-skip-member", _skip)
    app.connect("build-finished", _label)


def _read(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def _sign(_app: Any, what: str, _name: str, thing: Any, *_: Any) -> tuple[str, str] | None:
    """Return the signature of a class without types. Its metaclass or `__new__` may hide it."""
    if what != "class" or issubclass(thing, Exception):
        return None
    shown = [
        parameter.replace(annotation=parameter.empty, default=_short(parameter.default))
        for parameter in inspect.signature(thing).parameters.values()
    ]
    return str(inspect.Signature(shown)), ""


def _skip(_app: Any, _what: str, _name: str, thing: Any, *_: Any) -> bool | None:
    """Skip fields of a named tuple, which its docstring describes."""
    return True if str(thing.__doc__).startswith("Alias for field number") else None


def _short(default: Any) -> Any:
    is_short = isinstance(default, str | int | float | None) or default is inspect.Parameter.empty
    return default if is_short else _Long()


class _Long:
    """Default of a parameter that is too long to show."""

    def __repr__(self) -> str:
        return "..."


REACHED = {  # by keyboard and screen readers
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Site">',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    "<th></th>": "<td></td>",
}


def _label(app: Any, _error: Any) -> None:
    """Name the landmarks of each page, and let boxes that scroll be reached by keyboard."""
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for found, better in REACHED.items():
            text = text.replace(found, better)
        path.write_text(text, encoding="utf-8")
