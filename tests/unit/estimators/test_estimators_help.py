"""What `help` and `?` show of the estimators: short signatures, and every parameter and
attribute.
"""

import inspect
import re
from typing import Any

import pytest
from sklearn.datasets import load_iris

from fastlloyd import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd

X = load_iris().data
ESTIMATORS = [MomentLloyd, FastLloyd, GLloyd, SuLloyd, Lloyd]


def _entries(kind: type[Any], heading: str) -> set[str]:
    """The names of a section in scikit-learn's style: `name : kind` at the margin, and indented
    what it is.
    """
    text = inspect.getdoc(kind) or ""
    section = re.search(
        rf"^{heading}\n-+\n(.*?)(?=^\w[^\n]*\n-{{3,}}$|\Z)", text, re.DOTALL | re.MULTILINE
    )
    assert section is not None
    return set(re.findall(r"^(\w+) : \S[^\n]*\n    \S", section[1], re.MULTILINE))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_signature_is_short_enough_to_read(kind: type[Any]) -> None:
    """MomentLloyd had 1,112 characters, most of them what ArrayLike stands for."""
    shown = [kind, *(getattr(kind, name) for name in dir(kind) if not name.startswith("_"))]
    signatures = [str(inspect.signature(thing)) for thing in shown if callable(thing)]
    assert max(map(len, signatures)) < 800
    assert max(len(part) for part in signatures[0].split(", ")) < 55
    assert not [
        text
        for text in signatures
        if "Sequence[" in text or "_SupportsArray" in text or "NestedSequence" in text
    ]


@pytest.mark.parametrize("kind", [MomentLloyd, FastLloyd])
def test_every_parameter_and_every_attribute_is_explained_where_it_is_looked_for(
    kind: type[Any],
) -> None:
    model = kind(3, bounds=(0, 8), n_records=200, estimate_loss=True, random_state=0).fit(X)
    assert _entries(kind, "Parameters") == set(inspect.signature(kind).parameters)
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    worked_out = {
        "bounds_",
        "privacy_spent_",
        "clearest_split_",
        "finer_split_",
    }  # when they are first asked for
    assert _entries(kind, "Attributes") == fitted | worked_out | {"feature_names_in_"}


@pytest.mark.parametrize("kind", [MomentLloyd, FastLloyd])
def test_what_privacy_spent_leaves_out_is_said_where_it_is_explained(kind: type[Any]) -> None:
    text = " ".join((inspect.getdoc(kind) or "").split())
    assert "ONLY the last `fit`" in text
    assert "nor the clones" in text
    assert "each spends epsilon too" in text
