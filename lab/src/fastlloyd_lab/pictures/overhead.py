"""Runtime and bytes of one iteration, measured and published side by side (Table 3 of the
paper).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastlloyd.errors import DataError
from fastlloyd.reports.figures import PALETTE, plain
from fastlloyd_lab.pictures.axes import grid, numbered
from fastlloyd_lab.pictures.sheet import TEXT, TICK, Drawing, fitted, sheet
from fastlloyd_lab.pictures.summaries import Summaries, place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARK_HEIGHT, LEAST_ROW = 0.085, 0.3  # inches
PUBLISHED = "published-"  # how the transport of such a row begins
FOOT = (
    "Per iteration; long axes are logarithmic; bars: 95% intervals. Hollow: published figures,"
    " taken on other machines."
)
_NEEDED = ("transport", "clients", "dataset", "n", "k", "d", "latency_ms", "runtime_ms")
_LABELS = {
    "mpi": "MPI", "grpc": "gRPC", "mpyc": "MPyC",
    "mpi-momentlloyd": "MPI, MomentLloyd", "grpc-momentlloyd": "gRPC, MomentLloyd",
    "published-fastlloyd": "FastLloyd, published",
    "published-mohassel": "Mohassel et al., published",
}  # fmt: skip
_LOOKS = {
    "mpi": (PALETTE[0], "o"), "grpc": (PALETTE[2], "^"), "mpyc": (PALETTE[6], "D"),
    "published-fastlloyd": (PALETTE[0], "s"), "published-mohassel": (PALETTE[1], "v"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Series:
    """What one mark stands for; bits of the ring are empty where there is none, or one for all."""

    transport: str
    clients: int
    ring_bits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A row of the table. shape : name, records, clusters, dimensions. runtime_ms, n_bytes :
    (value, low, high).
    """

    series: Series
    shape: tuple[str, int, int, int]
    latency_ms: float
    runtime_ms: tuple[float, float, float]
    n_bytes: float | None


def draw(summaries: Summaries) -> list[Drawing]:
    """One drawing for each latency. Raises DataError if the folder has no table of overheads, or a
    damaged one.
    """
    costs = [_cost(row, number) for number, row in enumerate(summaries.results.overhead, 1)]
    if not costs:
        raise DataError(
            "figure 'overhead' needs overhead.csv in the folder, as the benchmark of overheads"
            " leaves it"
        )
    latencies = sorted({cost.latency_ms for cost in costs})
    return [
        _draw(
            [cost for cost in costs if cost.latency_ms == latency],
            latency,
            f"-{n}" if len(latencies) > 1 else "",
        )
        for n, latency in enumerate(latencies, 1)
    ]


def _cost(row: Mapping[str, str], number: int) -> Cost:
    where = f"row {number} of overhead.csv"
    for name in _NEEDED:
        if name not in row:
            raise DataError(f"{where} has no column {name!r}; expected {', '.join(_NEEDED)}")
    try:
        runtime = float(row["runtime_ms"])
        return Cost(
            series=Series(row["transport"], int(row["clients"]), row.get("ring_bits", "")),
            shape=(row["dataset"], int(row["n"]), int(row["k"]), int(row["d"])),
            latency_ms=float(row["latency_ms"]),
            runtime_ms=(
                runtime,
                float(row.get("low") or runtime),
                float(row.get("high") or runtime),
            ),
            n_bytes=float(row["bytes"]) if row.get("bytes") else None,
        )
    except ValueError as error:
        raise DataError(f"{where} has a cell that is no number ({error})") from None


def _draw(costs: Sequence[Cost], latency: float, suffix: str) -> Drawing:
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    shapes = list(dict.fromkeys(cost.shape for cost in costs))
    series = sorted({cost.series for cost in costs}, key=_rank)
    looks = _looks(series)
    row_height = max(LEAST_ROW, MARK_HEIGHT * (len(series) + 1))
    title = f"Runtime and bytes of one iteration, latency {latency:g} ms"
    legend = {
        _label(each, series): Line2D([], [], markersize=4.5, **look) for each, look in looks.items()
    }
    figure, (runtime, traffic) = sheet(
        title, 0.5 + row_height * len(shapes), (1, 2), legend, [FOOT]
    )
    for panel, label in ((runtime, "runtime, ms"), (traffic, "bytes of all clients")):
        _rows(panel, shapes)
        panel.set_xlabel(label, fontsize=TEXT)
    traffic.set_yticklabels([])
    for cost in costs:
        row = len(shapes) - 1 - shapes.index(cost.shape)
        height = row + 0.42 - 0.84 * (series.index(cost.series) + 0.5) / len(series)
        value, low, high = cost.runtime_ms
        look = looks[cost.series]
        runtime.plot([low, high], [height, height], color=look["color"], linewidth=1)
        runtime.plot([value], [height], markersize=4, **look)
        if cost.n_bytes:
            traffic.plot([cost.n_bytes], [height], markersize=4, **look)
    for panel in (runtime, traffic):
        low, high = panel.get_xlim()
        if low > 0 and math.floor(math.log10(high)) <= math.ceil(math.log10(low)):
            # fewer than two powers of ten: no logarithmic axis
            panel.xaxis.set_major_locator(MaxNLocator(nbins=4))
            continue
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(numticks=6))
        panel.xaxis.set_minor_locator(NullLocator())
    return Drawing(name=f"overhead{suffix}", title=title, caption=f"{title}. {FOOT}", figure=figure)


def _rank(series: Series) -> tuple[bool, int, Series]:
    padded = Series(series.transport, series.clients, series.ring_bits.zfill(4))
    return series.transport.startswith(PUBLISHED), place(series.transport, _LABELS), padded


def _label(series: Series, all_series: Sequence[Series]) -> str:
    name = _LABELS.get(series.transport, series.transport)
    if series.transport.startswith(PUBLISHED):
        return name
    same = [each for each in all_series if each.transport == series.transport]
    parts = [f"{series.clients} clients"]
    if len({each.ring_bits for each in same}) > 1 and series.ring_bits:
        parts.append(f"{series.ring_bits} bits")
    return f"{name}, {', '.join(parts)}"


def _looks(series: Sequence[Series]) -> dict[Series, dict[str, Any]]:
    """Keywords of marks: published figures are hollow; the first series of a transport has that
    transport's look.
    """
    found: dict[Series, dict[str, Any]] = {}
    others = 0
    for each in series:
        if each.transport in _LOOKS and not any(
            other.transport == each.transport for other in found
        ):
            colour, mark = _LOOKS[each.transport]
        else:
            style = numbered(others)
            colour, mark, others = style.colour, style.mark, others + 1
        face = "white" if each.transport.startswith(PUBLISHED) else colour
        found[each] = {
            "color": colour,
            "marker": mark,
            "markerfacecolor": face,
            "linestyle": "none",
        }
    return found


def _rows(panel: "Axes", shapes: Sequence[tuple[str, int, int, int]]) -> None:
    """A row for each set, the first on top, with lines between them."""
    labels = [
        f"{fitted(name, TICK, 1.2)}  N={n:,}  k={k}  d={d}" for name, n, k, d in reversed(shapes)
    ]
    panel.set_yticks(range(len(shapes)), [plain(label) for label in labels])
    panel.set_ylim(-0.5, len(shapes) - 0.5)
    panel.tick_params(axis="y", length=0)
    for edge in range(1, len(shapes)):
        panel.axhline(edge - 0.5, color="#E2E2E2", linewidth=0.5, zorder=0)
    grid(panel, "x")
