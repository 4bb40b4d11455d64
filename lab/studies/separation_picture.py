"""Draw three generated sets beside each other: docs/images/synthetic.png."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from fastlloyd.reports.figures import PALETTE
from fastlloyd_lab.datasets.mixture import touching_radius
from fastlloyd_lab.datasets.synthetic import generate_labelled
from studies.separation_index import sample_separations

SETS = ("synth-8-2-1", "ablation-8-2-0.25", "ablation-8-2-0.75")
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "synthetic.png"
# black is for outliers
COLOURS = [colour if colour != "#000000" else "#999999" for colour in PALETTE]

figure = Figure(figsize=(11.0, 4.4), layout="constrained")
FigureCanvasAgg(figure)
for axes, name in zip(figure.subplots(1, len(SETS)), SETS, strict=True):
    table, labels = generate_labelled(name)
    separation = sample_separations(table.values, labels)
    for cluster, records in enumerate(
        table.values[labels == cluster] for cluster in range(labels.max() + 1)
    ):
        axes.scatter(
            *records.T, s=1.5, linewidths=0, alpha=0.6, color=COLOURS[cluster], rasterized=True
        )
        variances, directions = np.linalg.eigh(np.cov(records, rowvar=False))
        width, height = 2 * touching_radius(float(separation.mean())) * np.sqrt(variances)
        angle = np.degrees(np.arctan2(directions[1, 0], directions[0, 0]))
        axes.add_patch(
            Ellipse(records.mean(axis=0), width, height, angle=angle, fill=False, lw=0.8)
        )
    outliers = table.values[labels < 0]
    axes.scatter(*outliers.T, s=14, marker="x", color="black", linewidths=0.8)
    axes.set_title(
        f"{name}\n{len(table.values):,} records, {len(outliers)} outliers (x)\n"
        f"measured separation {separation.min():.2f} to {separation.max():.2f}",
        fontsize=10,
    )
    axes.set_aspect("equal", adjustable="datalim")
figure.savefig(PICTURE, dpi=110)
print(PICTURE)
