"""Figure of the runtime and the bytes of one iteration, measured and published (Table 3 of the
paper).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastlloyd.errors import DataError
from fastlloyd_lab.pictures.axes import (
    LOOKS,
    Style,
    grid,
    mark_decades,
    name_set,
    shade,
)
from fastlloyd_lab.pictures.sheet import TEXT, WIDTH, Drawing, sheet
from fastlloyd_lab.pictures.summaries import DataSet, Summaries, place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS = 5  # panels
PANEL_HEIGHT = 1.25  # inches
PUBLISHED = "published-"  # how the transport of such a row begins
FOOT = (
    "Per iteration, on logarithmic axes; bars: 95% intervals. Hollow: published figures, taken on"
    " other machines."
)
_NEEDED = ("transport", "clients", "dataset", "n", "k", "d", "latency_ms", "runtime_ms")
_FAST, _MOMENT = LOOKS["fastlloyd"].colour, LOOKS["momentlloyd"].colour
# colours tell methods apart, marks how messages travel
_LOOKS = {
    "mpi": ("FastLloyd over MPI", _FAST, "o"),
    "grpc": ("FastLloyd over gRPC", _FAST, "^"),
    "mpi-momentlloyd": ("MomentLloyd over MPI", _MOMENT, "o"),
    "grpc-momentlloyd": ("MomentLloyd over gRPC", _MOMENT, "^"),
    "mpyc": ("Lloyd on shares, MPyC", LOOKS["lloyd"].colour, "D"),
    "published-fastlloyd": ("FastLloyd, published", _FAST, "s"),
    "published-mohassel": ("Mohassel et al., published", "#603000", "v"),
}


@dataclass(frozen=True, slots=True, order=True)
class Series:
    """One line of the figure: the runs with this transport and ring.

    ring_bits : bits of the ring, or "" if there is none.
    """

    transport: str
    ring_bits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Row of the table of overheads: the cost of an iteration.

    runtime_ms, n_bytes : (value, low, high), or None if unknown.
    """

    series: Series
    clients: int
    dataset: DataSet
    latency_ms: float
    runtime_ms: tuple[float, float, float]
    n_bytes: tuple[float, float, float] | None

    def of(self, kind: int) -> tuple[float, float, float] | None:
        """Return the runtime if `kind` is 0, or the bytes if it is 1."""
        return (self.runtime_ms, self.n_bytes)[kind]


def draw(summaries: Summaries) -> list[Drawing]:
    """Return one drawing for each latency. Raises DataError if the folder has no valid table of
    overheads.
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
            series=Series(row["transport"], row.get("ring_bits", "")),
            clients=int(row["clients"]),
            dataset=DataSet(
                name=row["dataset"],
                n_records=int(row["n"]),
                n_features=int(row["d"]),
                n_clusters=int(row["k"]),
            ),
            latency_ms=float(row["latency_ms"]),
            runtime_ms=(
                runtime,
                float(row.get("low") or runtime),
                float(row.get("high") or runtime),
            ),
            n_bytes=(float(row["bytes"]),) * 3 if row.get("bytes") else None,
        )
    except ValueError as error:
        raise DataError(f"{where} has a cell that is no number ({error})") from None


def _draw(costs: Sequence[Cost], latency: float, suffix: str) -> Drawing:
    """Draw two rows of panels for every five sets: runtimes, and below them bytes."""
    sets = list(dict.fromkeys(cost.dataset for cost in costs))
    series = sorted({cost.series for cost in costs}, key=_rank)
    looks = {each: _look(each, series) for each in series}
    title = f"Runtime and bytes of one iteration, latency {latency:g} ms"
    legend = {label: style.sample() for label, style in looks.values()}
    across = min(ACROSS, len(sets))
    shape = (2 * math.ceil(len(sets) / across), across)
    figure, panels = sheet(title, PANEL_HEIGHT, shape, legend, [FOOT])
    clients = sorted({cost.clients for cost in costs})
    styles = {each: style for each, (_, style) in looks.items()}
    for kind, unit in enumerate(("ms", "bytes")):
        values = [value for cost in costs if (value := cost.of(kind))]
        for at, dataset in enumerate(sets if values else []):
            panel = panels[(2 * (at // across) + kind) * across + at % across]
            shown = [cost for cost in costs if cost.dataset == dataset]
            _panel(panel, shown, kind, styles, clients)
            least, most = min(low for _, low, _ in values), max(high for *_, high in values)
            room = max((most / least) ** 0.08, 1.5)
            mark_decades(panel)
            panel.set_ylim(least / room, most * room)
            if kind == 0:
                name_set(panel, dataset, WIDTH / across - 0.2)
            else:
                panel.set_xlabel("clients", fontsize=TEXT)
            if at % across == 0:
                panel.set_ylabel(unit, fontsize=TEXT)
            else:
                panel.set_yticklabels([])
    for panel in panels:
        if not panel.lines:
            panel.remove()
    return Drawing(name=f"overhead{suffix}", title=title, caption=f"{title}. {FOOT}", figure=figure)


def _panel(
    panel: "Axes",
    costs: Sequence[Cost],
    kind: int,
    styles: Mapping[Series, Style],
    clients: Sequence[int],
) -> None:
    """Draw costs by number of clients. The lines are shifted a little, so that they do
    not overlap.
    """
    for number, (series, style) in enumerate(styles.items()):
        beside = 0.7 * ((number + 0.5) / len(styles) - 0.5)
        points = sorted(
            (clients.index(cost.clients) + beside, value)
            for cost in costs
            if cost.series == series and (value := cost.of(kind))
        )
        panel.plot([x for x, _ in points], [value for _, (value, *_) in points], **style.of_line())
        for x, (_, low, high) in points:
            panel.plot([x, x], [low, high], color=style.colour, linewidth=1)
    panel.set_xlim(-0.5, len(clients) - 0.5)
    panel.set_xticks(range(len(clients)), [str(n) for n in clients])
    grid(panel)


def _rank(series: Series) -> tuple[bool, int, Series]:
    padded = Series(series.transport, series.ring_bits.zfill(4))
    return series.transport.startswith(PUBLISHED), place(series.transport, _LOOKS), padded


def _look(series: Series, all_series: Sequence[Series]) -> tuple[str, Style]:
    """Return the label and the style of a line. Lines for smaller rings have a lighter shade."""
    name, colour, mark = _LOOKS.get(series.transport, (series.transport, "#999999", "P"))
    bits = [each.ring_bits for each in all_series if each.transport == series.transport]
    is_second = len(bits) > 1 and series.ring_bits != bits[-1]
    return (
        f"{name}, {series.ring_bits} bits" if len(bits) > 1 and series.ring_bits else name,
        Style(
            shade(colour, 0.5) if is_second else colour,
            (0, (2, 1.5)) if is_second else (0, ()),
            "d" if is_second else mark,
            4.0,
            is_open=series.transport.startswith(PUBLISHED),
        ),
    )
