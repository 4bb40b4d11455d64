"""How the line of a method looks: the same in every figure of an experiment, told apart by colour, dashes and marks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastlloyd.evaluation.pictures.summaries import Summaries, Variant
from fastlloyd.reports.pictures import PALETTE

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

_BLUE, _VERMILION, _GREEN, _PURPLE, _SKY, _ORANGE, _BLACK, _VIOLET = PALETTE
_Dashes = tuple[int, tuple[float, ...]]
_SOLID: _Dashes = (0, ())


@dataclass(frozen=True, slots=True)
class Style:
    """Colour, dashes in line widths, and mark of a line; an open mark shows one that lies under it.

    size : of the mark, points.
    """

    colour: str
    dashes: _Dashes
    mark: str
    size: float = 3.4
    is_open: bool = False

    def of_line(self, **changes: Any) -> dict[str, Any]:
        """Keywords of `Axes.plot`. Unbroken lines lie under those with gaps, through which they are seen."""
        return {
            "color": self.colour,
            "linestyle": self.dashes,
            "marker": self.mark,
            "markersize": self.size,
            "markerfacecolor": "none" if self.is_open else self.colour,
            "markeredgewidth": 1.0,
            "linewidth": 1.3,
            "zorder": 3 if self.dashes == _SOLID else 4,
        } | changes

    def sample(self) -> "Line2D":
        """A piece of the line for a legend."""
        from matplotlib.lines import Line2D

        return Line2D([], [], **self.of_line())


_OF_THE_PAPER = {
    "lloyd": Style(_BLACK, (0, (1, 1.5)), ""),
    "sulloyd": Style(_VERMILION, (0, (5, 2)), "s", 5.0, is_open=True),
    "glloyd": Style(_GREEN, (0, (6, 1.5, 1, 1.5)), "^", 5.6, is_open=True),
    "fastlloyd": Style(_BLUE, _SOLID, "o", 3.0),
}
_FREE = (
    Style(_PURPLE, (0, (3, 1.5)), "D", 4.6, is_open=True),
    Style(_ORANGE, (0, (8, 2)), "v"),
    Style(_SKY, (0, (4, 1, 1, 1, 1, 1)), "P", 5.6, is_open=True),
    Style(_VIOLET, _SOLID, "X"),
)
_MARKS = ("*", "<", ">", "h", "d", "p", "8")


def styles(summaries: Summaries) -> dict[Variant, Style]:
    """The style of every line; the first variant of a method of the paper has that method's own."""
    taken: dict[Variant, Style] = {}
    for variant in summaries.variants:
        if variant.method in _OF_THE_PAPER and not any(other.method == variant.method for other in taken):
            taken[variant] = _OF_THE_PAPER[variant.method]
    others = (variant for variant in summaries.variants if variant not in taken)
    return taken | {variant: numbered(number) for number, variant in enumerate(others)}


def numbered(number: int) -> Style:
    """Styles without end: those that are left first, then colours once more with other marks."""
    if number < len(_FREE):
        return _FREE[number]
    again, place = divmod(number, len(PALETTE))
    return Style(PALETTE[place], _FREE[number % len(_FREE)].dashes, _MARKS[(number + again) % len(_MARKS)])


def legend(summaries: Summaries, variants: list[Variant]) -> dict[str, Any]:
    """Labels with samples of their lines, for the variants that a figure shows."""
    looks = styles(summaries)
    return {
        summaries.label(each) + ("" if summaries.is_private(each) else ", no noise"): looks[each].sample()
        for each in summaries.variants
        if each in variants
    }
