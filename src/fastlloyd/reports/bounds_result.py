"""Result of a run that finds bounds, alone or as the first stage of a clustering."""

from typing import Any

import numpy as np
import tomli_w

from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.base.sealed_toml import without_none
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism, FoundBounds
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.records.bounds import bounds_file, commented
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.records.recipe.search import found_bounds
from fastlloyd.reports.facts import said as words
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.plan_facts import cautions
from fastlloyd.reports.run_result import BOUNDS, RunResult
from fastlloyd.reports.statement import gaussian_parameters, mechanism_statement

FOUND = "Bounds found with differential privacy"  # how every such file begins


class BoundsResult(RunResult, frozen=True, kw_only=True):
    """Result of a run that found bounds."""

    mechanism: BoundsMechanism
    bounds: FoundBounds

    @classmethod
    def of_run(cls, plan: Plan, run: ClientResult) -> "BoundsResult":
        """Return the result that a client of a federated run has. Raises TypeError if the run found
        no bounds.
        """
        if not (isinstance(plan.mechanism, BoundsMechanism) and isinstance(run.found, FoundBounds)):
            raise TypeError("this run found no bounds")
        return cls(
            mechanism=plan.mechanism,
            bounds=run.found,
            plan=plan,
            included=run.included,
            unconfirmed=run.unconfirmed,
            doubtful=run.doubtful,
        )

    @property
    def ends(self) -> dict[str, list[Any]]:
        """Lower and upper bound of each feature, in original units. A date is a text."""
        domain = self.mechanism.domain
        ends = np.array(self.bounds.ends(domain)).T.tolist()
        found = dict(zip(domain.features, ends, strict=True))
        features = {each.key: each for each in domain.recipe or ()}
        return {
            name: list(found_bounds(features[name], *ends)) if name in features else ends
            for name, ends in found.items()
        }

    @property
    def not_found(self) -> list[str]:
        """Features that keep the outer range as their bounds, because noise hides the position of
        their records.
        """
        return self.bounds.missing(self.mechanism.domain)

    def statement(self) -> dict[str, Any]:
        """Return the content of `privacy.json`. It names the features whose bounds were
        not found.
        """
        return super().statement() | {"not_found": self.not_found}

    def found(self) -> dict[str, Any]:
        """Return the bounds by feature, and the features that keep the outer range."""
        return {"bounds": self.ends, "not_found": self.not_found}

    def text(self) -> str:
        """Return the text of the file of bounds, which `--bounds` reads."""
        return bounds_file(self.ends, self._remarks)

    def text_with_statement(self, recipe: Recipe | None) -> str:
        """Return the text of the file of bounds, with the privacy statement as a table.

        recipe : recipe of the search, or None. With a recipe, return the text of this recipe with
            the bounds found, and with the privacy statement as a comment.
        """
        said = tomli_w.dumps({"privacy": without_none(self.statement())})
        if recipe is None:
            return self.text() + "\n" + said
        found = recipe.with_bounds(self.ends).to_toml()
        return commented(self._remarks) + found + "\n" + commented(said.splitlines())

    @property
    def _remarks(self) -> list[str]:
        m, mark = self.mechanism, [self.mark] if self.mark else []
        heading = (
            f"{FOUND} (epsilon {epsilon_up(m.epsilon)}, delta {delta_up(m.delta)}); values outside"
            " are clipped."
        )
        kept = [
            (
                "Noise hid the position of the values of these features, so their bounds are the"
                f" whole range that was stated: {', '.join(map(repr, self.not_found))}."
            )
        ]
        return [heading, *mark, *(kept if self.not_found else [])]

    def files(self) -> dict[str, bytes]:
        """Return the text files of the result by name, with the file of bounds."""
        return {BOUNDS: self.text().encode()} | super().files()


def both_stages(
    said: dict[str, Any],
    first: BoundsMechanism,
    m: Mechanism,
    epsilon: float,
    not_found: list[str],
) -> dict[str, Any]:
    """Return the privacy statement of a run that finds bounds and then clusters within them.

    said : privacy statement of the clustering.
    first : mechanism that found the bounds.
    m : mechanism of the clustering.
    epsilon : epsilon of both stages together.
    not_found : features whose bounds were not found.
    """
    whole, mine = first.accountant().compose(m.releases()), mechanism_statement(first)
    known = {name: mine[name] for name in ("outer_range", "rounds", "mechanism_digest")}
    return said | {
        "epsilon": epsilon,
        **gaussian_parameters(whole.mu_squared),
        "delta_accounted": whole.get_delta(epsilon),
        "n_rounds": len(first.rounds) + len(m.rounds),
        "bounds": {
            "share_of_budget": float(first.accountant().mu_squared / whole.mu_squared),
            "not_found": not_found,
            **known,
        },
        "protected": (
            [
                sentence(Fact.of("protected_first_stage")),
                *said["protected"],
            ]
            if said["private"]
            else []
        ),
        "cautions": [
            *said["cautions"],
            *(c for c in words(cautions(m, epsilon), m.unit) if c not in said["cautions"]),
        ],
    }
