"""Picture of a data set's budget: epsilon spent after each run, and the limits."""

import math
from collections.abc import Sequence
from fractions import Fraction

import msgspec
from msgspec.structs import replace

from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.federation.ledger import Account, counted_of, finite
from fastlloyd.federation.spending import Spending
from fastlloyd.reports import figures

HEIGHT = 4.5  # inches


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Line of the picture: total epsilon after each run, starting before the first run.

    name : data set or persons that the line is for.
    epsilons : total epsilon after 0, 1, 2, ... runs.
    planned : total epsilon after the last run, and after each planned run.
    limit : limit of epsilon, or None without a limit at this delta.
    """

    name: str
    epsilons: tuple[float, ...]
    planned: tuple[float, ...]
    limit: float | None

    @property
    def label(self) -> str:
        """Label of the line. It adds "no bound" if the total after the last run is infinite,
        because the line cannot be drawn up to there.
        """
        return self.name if math.isfinite(self.epsilons[-1]) else f"{self.name}: no bound"


def line_of(one: Account, delta: float, n_planned: int) -> Line:
    """Return the line of an account at one delta.

    one : account with its runs so far.
    delta : delta at which epsilon is computed.
    n_planned : number of equal planned runs, which together use up the limit.
    """
    runs = counted_of(one.runs)
    spent = (Spending.of(runs[:n], one.asked).epsilon(delta) for n in range(len(runs) + 1))
    limit, each = finite(one.limit), Fraction(0)
    if (left := one.left_for(n_planned, delta)) and delta:
        each = Fraction(gdp_mu(left, delta)) ** 2
    more = (
        replace(one.spent, mu_squared=one.spent.mu_squared + n * each)
        for n in range(n_planned + 1)
        if each
    )
    return Line(
        name=str(one.asked),
        epsilons=tuple(spent),
        planned=tuple(each.epsilon(delta) for each in more),
        limit=limit.epsilon if limit is not None and limit.delta == delta else None,
    )


def draw(title: str, lines: Sequence[Line], left: str) -> bytes:
    """Return the picture as PNG. Planned runs are thin lines, and limits are dashed in the colour
    of their line.

    title : title of the picture.
    lines : lines to draw. An infinite total is not drawn.
    left : sentence about the budget that is left.

    Raises OutputError if matplotlib cannot be imported.
    """
    figure = figures.new_figure(HEIGHT, "the picture")
    ax = figure.add_subplot()
    for line, colour in zip(lines, figures.PALETTE, strict=False):
        ax.step(
            range(len(line.epsilons)),
            line.epsilons,
            where="post",
            color=colour,
            linewidth=2.2,
            label=line.label,
        )
        now = len(line.epsilons) - 1
        ax.plot(now, line.epsilons[-1], marker="o", color=colour)
        ax.step(
            range(now, now + len(line.planned)),
            line.planned,
            where="post",
            color=colour,
            linewidth=1.2,
        )
        if line.limit is not None:
            ax.axhline(line.limit, color=colour, linewidth=1.2, linestyle=(0, (4, 3)))
            ax.annotate(
                "limit", (0, line.limit), xytext=(3, 3), textcoords="offset points", color=colour
            )
    ax.locator_params("x", integer=True)
    ax.set(xlabel="runs", ylabel="epsilon spent")
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)
    # beside the lines, which may be anywhere
    figure.legend(loc="outside lower left", frameon=False)
    ax.set_title(figures.plain(f"{title}\n{left}"), loc="left", fontsize=10)
    return figures.to_png(figure, title)
