"""Options of a mechanism and of its guarantee."""

from dataclasses import dataclass
from typing import Annotated

from fastlloyd.cli.options import (
    Delta,
    Epsilon,
    NExpected,
    NRecords,
    Relation,
    in_ablation,
    in_clustering,
    in_privacy,
)


@dataclass(frozen=True, kw_only=True)
class GuaranteeOptions:
    """Options of the guarantee of a run, and of its planned number of records."""

    epsilon: Epsilon = None
    delta: Delta = None
    n_records: NRecords = None
    neighboring_relation: Relation = "add_or_remove_one"
    n_expected: NExpected = None


@dataclass(frozen=True, kw_only=True)
class MechanismOptions:
    """Options that determine the mechanism of a clustering."""

    n_clusters: Annotated[
        int, in_clustering("--n-clusters", "-k", min=1, help="Number of clusters.", metavar="K")
    ]
    bounds: Annotated[
        str | None,
        in_privacy(
            help=(
                "Public bounds, chosen without looking at the data: LO:HI for all columns,"
                " a=LO:HI,b=LO:HI, or a TOML file with a table [bounds] (`fastlloyd bounds"
                " template` makes one). The word 'private' finds the bounds within --range (in"
                " `fit` only). The word 'from-data' takes the bounds of the records, NOT PRIVATE."
            ),
            metavar="BOUNDS|private|from-data",
        ),
    ] = None
    epsilon: Epsilon = None
    delta: Delta = None
    n_records: NRecords = None
    neighboring_relation: Relation = "add_or_remove_one"
    loss: Annotated[
        bool,
        in_privacy(
            "--loss", help="Also estimate the loss of the result, with a share of the budget."
        ),
    ] = False
    loss_share: Annotated[
        float | None,
        in_privacy(
            help=(
                "Share of the budget for --loss. Default: between 0.01 and 0.2, depending on the"
                " expected number of records."
            ),
            metavar="SHARE",
        ),
    ] = None
    algorithm: Annotated[
        str | None,
        in_clustering(
            help=(
                "'momentlloyd' is our own mechanism, the others are the paper's. 'lloyd' adds no"
                " noise: NOT PRIVATE. Default: momentlloyd (preset paper: fastlloyd)."
            ),
            metavar="momentlloyd|fastlloyd|glloyd|sulloyd|lloyd",
        ),
    ] = None
    preset: Annotated[
        str,
        in_clustering(
            help=(
                "'paper' takes the settings of the published experiments (weaker delta,"
                " --min-count 0)."
            ),
            metavar="default|paper",
        ),
    ] = "default"
    n_expected: NExpected = None
    scaling: Annotated[
        str,
        in_clustering(
            help=(
                "'per-feature': every feature has the same weight, whatever the width of its"
                " bounds. 'common': distances are measured in the original units."
            ),
            metavar="per-feature|common",
        ),
    ] = "per-feature"
    public_seed: Annotated[
        str | None,
        in_clustering(
            help=(
                "Seed of the initial centroids: any text or integer. The noise does not depend on"
                " the seed. Default: a fresh seed."
            ),
            metavar="SEED",
        ),
    ] = None
    iterations: Annotated[
        int | None,
        in_clustering(
            min=1,
            max=1000,
            help=(
                "Number of iterations (paper's algorithms only). Default: between 2 and 7, chosen"
                " by the paper's error analysis."
            ),
            metavar="T",
        ),
    ] = None
    initialization: Annotated[
        str | None,
        in_ablation(
            help=(
                "The initial centroids are centres of spheres that do not overlap. This option"
                " says how the spheres' largest radius is searched for."
            ),
            metavar="bisection|halving",
        ),
    ] = None
    min_count: Annotated[
        float | None,
        in_ablation(
            help=(
                "Smallest noisy count at which a centroid still moves; with a smaller count it"
                " stays. The paper has 0."
            ),
            metavar="N",
        ),
    ] = None
    radius: Annotated[
        str | None,
        in_ablation(
            help=(
                "How the radius within which records count around their centroid changes from"
                " round to round."
            ),
            metavar="none|constant|step",
        ),
    ] = None
    alpha: Annotated[
        float | None,
        in_ablation(
            help=(
                "Factor alpha that scales the radius within which records count, above 0"
                " and at most 4."
            ),
            metavar="ALPHA",
        ),
    ] = None
    postprocessing: Annotated[
        str | None,
        in_ablation(
            help="What to do with centroids outside the bounds.", metavar="none|truncate|fold"
        ),
    ] = None
    clipping: Annotated[
        bool | None,
        in_ablation(
            "--clipping/--no-clipping",
            help="Limit the move of a centroid in one iteration to the radius.",
        ),
    ] = None
    noise: Annotated[
        str | None, in_ablation(help="Distribution of the noise.", metavar="gaussian|laplace")
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlanOptions(MechanismOptions):
    """Options that determine the mechanism of a plan, for clusters or for bounds."""

    n_clusters: Annotated[
        int | None,
        in_clustering("--n-clusters", "-k", min=1, help="Number of clusters.", metavar="K"),
    ] = None  # type: ignore[assignment]
