"""Settings become text and come back the same; what was changed, cut off or never such a file is
refused in one sentence.
"""

import hashlib
import json
import re
import tomllib
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.sealed_toml import MAX_BYTES, canonical, digest, from_toml, to_builtins, to_toml
from fastlloyd.errors import CHANGED_FILE, OTHER_VERSION, PlanError
from fastlloyd.federation.plan.plan import Plan
from federation import make_plan


class Inner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    share: Fraction
    limit: int | None = None


class Outer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str
    size: int
    ratio: float
    parts: tuple[Inner, ...] = ()
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0:
            raise PlanError(f"size is {self.size}; expected 0 or more")


OUTERS = st.builds(
    Outer,
    title=st.text(st.characters(exclude_categories=["Cs"])),
    size=st.integers(0, 2**80),
    ratio=st.floats(allow_nan=False),
    parts=st.lists(
        st.builds(Inner, share=st.fractions(), limit=st.none() | st.integers(-(2**70), 2**70)),
        max_size=3,
    ).map(tuple),
    words=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=3).map(
        tuple
    ),
)


def example() -> Outer:
    return Outer(
        title="t",
        size=3,
        ratio=0.1,
        parts=(Inner(share=Fraction(13, 4)), Inner(share=Fraction(2), limit=7)),
    )


@settings(max_examples=200)
@given(OUTERS)
def test_a_document_is_read_back_as_it_was_written(document: Outer) -> None:
    text = to_toml(document, "A heading\nof two lines")
    assert text.startswith("# A heading\n# of two lines\n")
    again = from_toml(text, Outer, "file")
    assert again == document
    assert to_toml(again, "A heading\nof two lines") == text
    assert from_toml(text.replace("\n", "\r\n"), Outer, "file") == document
    assert text.endswith(f'[seal]\ndigest = "{digest(document).hex()}"\n')


@given(OUTERS, OUTERS)
def test_documents_differ_exactly_when_their_digests_do(one: Outer, other: Outer) -> None:
    assert (canonical(one) == canonical(other)) == (
        one == other and str(one.ratio) == str(other.ratio)
    )
    assert (digest(one) == digest(other)) == (canonical(one) == canonical(other))


def test_the_canonical_form_is_sorted_json_of_the_content_and_the_digest_its_sha256() -> None:
    content = {
        "title": "t",
        "size": 3,
        "ratio": 0.1,
        "parts": [{"share": "13/4"}, {"share": "2", "limit": 7}],
        "words": [],
    }
    assert to_builtins(example()) == content
    expected = b'{"parts":[{"share":"13/4"},{"limit":7,"share":"2"}],"ratio":0.1,"size":3,"title":"t","words":[]}'
    assert (
        canonical(example())
        == expected
        == json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    )
    assert digest(example()) == hashlib.sha256(expected).digest()
    assert (
        digest(example()).hex()
        == "8012eea07ea657214196713aca838b3dc7d57550f0e260f61eaeaf374b2abb27"
    )


def test_spelling_is_free_but_content_is_not() -> None:
    text = to_toml(example(), "heading")
    respelled = (
        re.sub(r"(?m)^#.*\n", "", text)
        .replace("size = 3", "size   =   0x3  # three")
        .replace("ratio = 0.1", "ratio = 1e-1")
    )
    assert respelled != text
    assert from_toml(respelled, Outer, "file") == example()
    for changed in (
        text.replace("size = 3", "size = 4"),
        text.replace('"13/4"', '"13/5"'),
        text.replace('"t"', '"T"'),
    ):
        assert changed != text
        with pytest.raises(PlanError, match=r"^file ") as refused:
            from_toml(changed, Outer, "file")
        assert refused.value.code == CHANGED_FILE


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size = 3", "size = 3.0", r"Expected `int`, got `float` - at `\$\.size`"),
        ("size = 3", "size = true", r"Expected `int`, got `bool` - at `\$\.size`"),
        ("size = 3", "size = -3", r"size is -3; expected 0 or more"),
        ("size = 3", "sise = 3", r"unknown field `sise`"),
        ("size = 3\n", "", r"missing required field `size`"),
        ("size = 3", "size = 3\nsize = 3", r"not valid TOML"),
        ("size = 3", "size = ", r"not valid TOML"),
        (
            '"13/4"',
            '"13/0"',
            r'expected a fraction such as "13/4", got \'13/0\' - at `\$\.parts\[0\]\.share`',
        ),
        ('"13/4"', '"nan"', r'expected a fraction such as "13/4"'),
        ('"13/4"', '" 13/4"', r'expected a fraction such as "13/4"'),
        ('"13/4"', '"13/4\\n"', r'expected a fraction such as "13/4"'),
        ('"13/4"', '"1_3/4"', r'expected a fraction such as "13/4"'),
        ('"13/4"', '"3.25"', r'expected a fraction such as "13/4"'),
        ('"13/4"', "3.25", r'expected a fraction such as "13/4", got 3.25'),
        ('"13/4"', "[13, 4]", r'expected a fraction such as "13/4"'),
    ],
)
def test_a_wrong_field_is_named_with_what_was_expected(old: str, new: str, message: str) -> None:
    text = to_toml(example(), "heading")
    assert old in text
    with pytest.raises(PlanError, match=rf"^file.*{message}"):
        from_toml(text.replace(old, new), Outer, "file")


@pytest.mark.parametrize(
    "text",
    ["", "# only comments\n", "size = 3\n", "seal = 1\n", "[seal]\n", "[seal]\ndigest = 1\n"],
)
def test_a_file_without_its_last_line_is_said_to_be_cut_off(text: str) -> None:
    with pytest.raises(PlanError, match=r"^file.*no digest") as refused:
        from_toml(text, Outer, "file")
    assert refused.value.code == CHANGED_FILE


def test_every_truncation_of_a_file_is_refused() -> None:
    text = to_toml(example(), "heading").rstrip()
    for end in range(len(text)):
        with pytest.raises(PlanError, match=r"^file"):
            from_toml(text[:end], Outer, "file")


@pytest.mark.parametrize(
    "hostile",
    [
        "a = " + "[" * 100_000,
        "a = " + "{b = " * 50_000,
        "a = " + "1" * 5000,
        "a = " + "[" * 300 + "]" * 300,
        ".".join("a" * 3000) + " = 1",
        "a = 1e999999999",
        "a = 2020-13-45",
        "a = 0x" + "f" * 100_000,
        "\x00",
        "a = '\ud800'",
        '"\u2028".' * 5000 + "a = 1",
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_file_gets_a_sentence_and_no_crash(hostile: str) -> None:
    with pytest.raises(PlanError, match=r"^file") as caught:
        from_toml(hostile + '\n[seal]\ndigest = "00"\n', Outer, "file")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "fraction", ["1e999999999", "1e-999999999", "9" * 500, "1/" + "9" * 500, "1." + "1" * 9000]
)
def test_a_fraction_that_takes_for_ever_to_compute_is_refused_at_once(fraction: str) -> None:
    text = to_toml(example(), "heading").replace('"13/4"', f'"{fraction}"')
    with pytest.raises(PlanError, match='such as "13/4"') as caught:
        from_toml(text, Outer, "file")
    assert len(str(caught.value)) < 200


def test_a_file_larger_than_any_plan_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(PlanError, match=rf"expected at most {MAX_BYTES}"):
        from_toml("[" * (MAX_BYTES + 1), Outer, "file")


@settings(max_examples=300)
@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda b: b.decode("latin-1")))
def test_any_text_at_all_raises_nothing_but_plan_errors(text: str) -> None:
    with pytest.raises(PlanError):
        from_toml(text, Outer, "file")


def test_what_no_plan_can_be_is_called_changed_only_if_its_digest_line_says_so() -> None:
    text = make_plan().to_toml()
    changed = text.replace("max_dropouts = ", "max_dropouts = 9")
    with pytest.raises(PlanError, match="or damaged") as refused:
        Plan.from_toml(changed)
    assert refused.value.code == CHANGED_FILE
    endless = changed.replace("[seal]", f"[x]\ny = 0x{'9' * 9000}\n[seal]")
    with pytest.raises(PlanError) as refused:
        Plan.from_toml(endless)
    assert refused.value.code == CHANGED_FILE
    content = tomllib.loads(changed)
    del content["seal"]
    sealed = hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
    with pytest.raises(PlanError) as refused:
        Plan.from_toml(changed.replace(make_plan().digest.hex(), sealed))
    assert refused.value.code != CHANGED_FILE


def test_a_document_of_another_form_that_was_sealed_so_is_another_versions() -> None:
    text = make_plan().to_toml()
    content = tomllib.loads(text)
    del content["seal"]
    content["what_later_versions_know"] = 1
    sealed = hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
    newer = "what_later_versions_know = 1\n" + text.replace(make_plan().digest.hex(), sealed)
    with pytest.raises(PlanError) as refused:
        Plan.from_toml(newer)
    assert refused.value.code == OTHER_VERSION
