"""HTML by functions: text is escaped, and nothing that runs can come in."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.base.markup import constant, element, style, together


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts += data


@given(st.text(), st.text())
def test_any_text_is_read_back_and_makes_no_element(text: str, value: str) -> None:
    seen = _Seen()
    seen.feed(element("p", text, title=value).text)
    seen.close()
    assert [tag for tag, _ in seen.tags] == ["p"]
    assert seen.tags[0][1] == {"title": value}
    assert seen.texts == text


def test_an_element_has_its_children_in_order_and_leaves_out_none() -> None:
    inner = element("b", 1, 2.5)
    made = element("p", "a<", [inner, None, False], class_="x", aria_label="y", hidden=True)
    assert made.text == '<p class="x" aria-label="y" hidden>a&lt;<b>12.5</b></p>'
    assert together(constant("<!doctype html>"), element("br")).text == "<!doctype html><br>"
    assert element("svg", viewBox="0 0 1 1", stroke_width=2).text == (
        '<svg viewBox="0 0 1 1" stroke-width="2"></svg>'
    )


def test_text_of_markup_that_was_made_a_string_is_escaped() -> None:
    assert element("p", f"{element('b')}").text == "<p>&lt;b&gt;&lt;/b&gt;</p>"


@pytest.mark.parametrize(
    "name", ["onclick", "ONload", "style", "a b", 'a"', "", "1a", "a=b", "on_x"]
)
def test_an_attribute_that_runs_or_is_no_name_is_refused(name: str) -> None:
    if name == "on_x":
        assert element("p", **{name: "v"}).text == '<p on-x="v"></p>'
        return
    with pytest.raises(ValueError, match="attribute"):
        element("p", **{name: "v"})


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", " javascript:x", "JaVaScRiPt:x", "data:text/html,x", "//x.y"]
)
def test_an_address_that_runs_or_leads_elsewhere_unseen_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="href"):
        element("a", href=address)


@pytest.mark.parametrize("address", ["", "/a", "#b", "?c", "x.html", "folder/x", "https://x.y/z"])
def test_a_path_and_an_address_of_the_web_are_kept(address: str) -> None:
    assert element("a", href=address).text == f'<a href="{address}"></a>'


def test_names_of_elements_and_style_sheets_cannot_smuggle() -> None:
    for tag in ("a b", "a>", "", "script"):
        with pytest.raises(ValueError, match="element"):
            element(tag, "x")
    with pytest.raises(ValueError, match="no content"):
        element("br", "x")
    with pytest.raises(ValueError, match="style sheet"):
        style("</style><script>")
    assert style("p{}").text == "<style>p{}</style>"
