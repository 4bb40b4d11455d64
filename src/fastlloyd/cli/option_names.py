"""Replace names of settings in messages by names of options."""

import re
from typing import Final

from fastlloyd.errors import FastLloydError

_UNLIKE: Final = {
    "value_range": "--range",
    "n_iterations": "--iterations",
    "estimate_loss": "--loss",
}
_ANYWHERE: Final = (  # no other word of a sentence is written so
    "value_range",
    "n_iterations",
    "estimate_loss",
    "n_records",
    "n_expected",
    "n_clusters",
    "neighboring_relation",
    "public_seed",
    "min_count",
    "loss_share",
    "unit_column",
    "unit_name",
    "max_clients_per_person",
    "new_dataset",
    "new_unit",
    "rows_are",
    "max_dropouts",
    "max_colluding",
    "ring_bits",
    "skip_lines",
    "missing_words",
)
_FIRST: Final = (
    "epsilon",
    "delta",
    "bounds",
    "algorithm",
    "preset",
    "scaling",
    "initialization",
    "radius",
    "alpha",
    "postprocessing",
    "clipping",
    "noise",
    "missing",
    "outside",
    "engine",
    "drop",
    "trust",
    "masks",
    "ledger",
    "separator",
    "decimal",
    "thousands",
    "encoding",
    "header",
)
# not before =, as in advice for Python, nor after a point, as a key of a recipe
_SETTING: Final = re.compile(
    rf"(?<!\.)\b({'|'.join(_ANYWHERE)})\b(?!=)|^({'|'.join(_FIRST)})\b|with (bounds)"
)


def of_option(error: FastLloydError) -> str:
    """Return the message of an error, with options in place of the settings that it names."""
    field = error.field or ""
    is_setting = field in _ANYWHERE or field in _FIRST
    return as_options(str(error)) if is_setting else str(error).replace("value_range", "--range")


def as_options(sentence: str) -> str:
    """Return a message with options in place of the settings that it names."""
    if sentence.startswith("bounds of "):
        return f"--bounds: {sentence}"
    return _SETTING.sub(lambda found: _option(found[0]), sentence)


def _option(name: str) -> str:
    if name.startswith("with "):
        return "with --bounds"
    return _UNLIKE.get(name, f"--{name.replace('_', '-')}")
