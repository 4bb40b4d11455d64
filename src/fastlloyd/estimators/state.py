"""State of an estimator: attributes that are computed when first read, and the content of pickles
and copies.

Pickles and copies leave out exact outputs. They contain no names of classes, because classes may
move.
"""

# signatures in short: help and ? show what is written here, not what it stands for
from __future__ import annotations

import os
from functools import cached_property
from typing import Any, NamedTuple, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import listing
from fastlloyd.dp.noise import Noise
from fastlloyd.estimators.charging import (
    BELONGS_TO,
    NOT_KNOWN,
    Nowhere,
    account_of_state,
    made_inside,
    passed_on,
    state_of,
)
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism
from fastlloyd.mechanisms.catalogue import read_mechanism
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.suggestion import NoisyVotes, Split, clearest_split
from fastlloyd.mechanisms.two_stages import FirstStage
from fastlloyd.records.recipe import Recipe
from fastlloyd.reports.bounds_result import both_stages
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.outside import COVERS_ESTIMATOR, THIS_ESTIMATOR
from fastlloyd.reports.statement import PrivacyStatement, mechanism_statement, with_radius
from fastlloyd.reports.stored_statement import SealedSettings, state_statement


class EstimatorState(BaseEstimator):
    """Base class with attributes of a fitted estimator that are computed when read, and with
    pickling and copying.
    """

    mechanism_: Mechanism
    _spent: Spent
    _votes: NoisyVotes | None = None
    _plan: Plan | None = None  # this and the next are settings that privacy_spent_ follows from
    _first: BoundsMechanism | None = None

    # a copy is made without parameters, and belongs to a block like any other
    def __new__(cls, *_: object, **__: object) -> Self:  # noqa: D102
        made: Self = super().__new__(cls)
        if (account := made_inside()) is not None:
            setattr(made, BELONGS_TO, account)
        return made

    def __sklearn_clone__(self) -> Self:
        """Return a clone of this estimator, as scikit-learn does.

        A clone that is made inside a block of `dataset` belongs to that block. Any other clone
        belongs to the account of this estimator.
        """
        made: Self = super().__sklearn_clone__()
        if BELONGS_TO in self.__dict__:
            made.__dict__.setdefault(BELONGS_TO, self.__dict__[BELONGS_TO])
        return made

    @cached_property
    def privacy_spent_(self) -> PrivacyStatement:
        """Privacy statement of the fit. The docstrings of the estimators describe it."""
        check_is_fitted(self)
        return self._spent.statement()

    @property
    def clearest_split_(self) -> int | None:
        """Number of groups in the clearest split. The docstrings of the estimators describe it."""
        check_is_fitted(self)
        return self._split.clearest

    @property
    def finer_split_(self) -> int | None:
        """Number of groups after one more split. The docstrings of the estimators describe it."""
        check_is_fitted(self)
        return self._split.finer

    @cached_property
    def _split(self) -> Split:
        """Numbers of groups that the noisy votes show (`suggestion.py`): in the clearest split,
        and after one more split of each group.
        """
        m = self.mechanism_
        return clearest_split(self._votes, m.n_clusters, m.seed) or Split()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle or copy. It leaves out `labels_`, which are exact outputs
        of the records.

        The state names no class, because classes may move. The settings become the text of
        `mechanism.toml`, the recipe becomes the text of a recipe file, and the privacy statement
        becomes a dict. The state contains the number of groups that the noisy votes show, and not
        the votes.
        """
        state: dict[str, Any] = {
            name: value
            for name, value in super().__getstate__().items()
            if name not in ("labels_", "_spent", "_votes", "_plan", "_first", BELONGS_TO)
        }
        account = passed_on(self.__dict__.get(BELONGS_TO, NOT_KNOWN))
        if account != NOT_KNOWN:
            state[BELONGS_TO] = state_of(account) if isinstance(account, BudgetAccount) else None
        if isinstance(recipe := state.get("recipe"), Recipe):
            state["recipe"] = recipe.to_toml()
        if "mechanism_" in state:
            state |= {
                "mechanism_": self.mechanism_.to_toml(),
                "privacy_spent_": dict(self.privacy_spent_),
            }
            others = {"_plan": self._plan, "_first": self._first}
            state |= {name: of.to_toml() for name, of in others.items() if of is not None}
            state["_split"] = (self._split.clearest, self._split.finer)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read a state that `__getstate__` returned.

        Raises DataError if the privacy statement contradicts the settings.
        """
        read = dict(state)
        if isinstance(recipe := read.get("recipe"), str):
            read["recipe"] = Recipe.from_toml(recipe)
        if BELONGS_TO in read:
            kept = read[BELONGS_TO]
            read[BELONGS_TO] = Nowhere(os.getpid()) if kept is None else account_of_state(kept)
        if BELONGS_TO in self.__dict__:  # made inside a block just now
            read[BELONGS_TO] = self.__dict__[BELONGS_TO]
        if "mechanism_" in state:
            mechanism = read_mechanism(state["mechanism_"])
            plan, first, source = state.get("_plan"), state.get("_first"), "the state of this model"
            sealed = SealedSettings(
                mechanism,
                None if plan is None else Plan.from_toml(plan, source),
                None if first is None else BoundsMechanism.from_toml(first, source),
            )
            others = {"_plan": sealed.plan, "_first": sealed.first}
            read |= {
                "mechanism_": mechanism,
                "privacy_spent_": state_statement(source, state["privacy_spent_"], sealed),
                **{name: of for name, of in others.items() if of is not None},
            }
        if "_split" in state:
            read["_split"] = Split(clearest=state["_split"][0], finer=state["_split"][1])
        super().__setstate__(read)


def hidden(first: FirstStage | None) -> list[str]:
    """Return a list with a warning about the features whose bounds were not found because of the
    noise, or an empty list.

    first : first stage of a fit, which found bounds, or None.
    """
    names = [] if first is None else first.not_found
    return (
        [
            (
                f"noise hides the position of the values of {listing(names)}, so their bounds are"
                " the whole range that was stated"
            )
        ]
        if names
        else []
    )


class Spent(NamedTuple):
    """Data from which the privacy statement of a fit is computed when it is read.

    Computing the statement takes longer than a fit of a few thousand records.

    mechanism : mechanism of the fit, or of its second stage.
    first : first stage of a fit with two stages, or None.
    data_set : name of the data set in the ledger, or None.
    radius : radius R of the intervals for each feature, float64 (n_features,), or None.
    """

    mechanism: Mechanism
    first: FirstStage | None
    data_set: str | None
    radius: FloatArray | None

    def statement(self) -> PrivacyStatement:
        """Return the privacy statement of the fit."""
        said = with_radius(mechanism_statement(self.mechanism), self.radius)
        if (first := self.first) is not None:
            said = both_stages(
                said, first.mechanism, self.mechanism, first.epsilon, first.not_found
            )
        if self.mechanism.loss is not None:
            said["loss_estimate"]["standard_error"] = self.mechanism.loss_deviation
        if self.mechanism.noise is not Noise.NONE:
            said["covers"] = THIS_ESTIMATOR
            said["cautions"] = [*said["cautions"], sentence(COVERS_ESTIMATOR)]
        return PrivacyStatement(said | {"data_set": self.data_set})
