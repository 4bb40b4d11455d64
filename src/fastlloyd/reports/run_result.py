"""Result of any run: its privacy statement and its files.

The guarantee covers all files of a result, except a picture with records.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.files import to_json
from fastlloyd.dp.noise import Noise
from fastlloyd.federation.plan.plan import Plan, TrustMode
from fastlloyd.federation.protocol.actions import Unfinished
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.picture import Picture
from fastlloyd.reports.plan_facts import NOT_COVERED
from fastlloyd.reports.statement import mechanism_statement, plan_statement

(
    PRIVACY,
    CENTROIDS,
    EXACT,
    BOUNDS,
    BOUNDS_MECHANISM,
    MECHANISM,
    PLAN,
    ROUNDS,
    PICTURE,
    COMPARISON,
    UNFINISHED,
    PAGE,
    NAMES,
) = FILES = (
    "privacy.json",
    "centroids.csv",
    "centroids.json",
    "bounds.toml",
    "bounds-mechanism.toml",
    "mechanism.toml",
    "plan.toml",
    "rounds.json",
    "clusters.png",
    "comparison-NOT-PRIVATE.json",
    "unfinished.json",
    "result.html",
    "names.toml",
)
NOT_PRIVATE = "NOT PRIVATE"
SHOWS_RECORDS = "clusters.png next to this statement shows the records themselves: NOT PRIVATE"


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a run, in original units, with the settings that determine its guarantee.

    mechanism : settings of the run.
    plan : plan of a federated run, or None.
    included : names of the clients in the sum of each round.
    unconfirmed : clients of the last round that did not confirm that they got the same result.
    doubtful : rounds, from 1, whose sums cannot come from records and the planned noise.
    cautions : further sentences for the privacy statement.
    day : day on which the run ended, as YYYY-MM-DD in UTC.
    """

    mechanism: AnyRun
    plan: Plan | None = None
    included: tuple[tuple[str, ...], ...] = ()
    unconfirmed: tuple[str, ...] = ()
    doubtful: tuple[int, ...] = ()
    cautions: tuple[str, ...] = ()
    day: str = msgspec.field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    @property
    def leaks(self) -> tuple[str, ...]:
        """Sentences about settings that were taken from the data. The guarantee does not cover
        them.
        """
        return self.mechanism.taken_from_the_data or ()

    @property
    def has_noise(self) -> bool:
        """Return whether the run added noise."""
        return self.mechanism.noise is not Noise.NONE

    @property
    def private(self) -> bool:
        """Return whether the guarantee holds.

        It holds if the run added noise and no setting was taken from the data.
        """
        return self.has_noise and not self.leaks

    @property
    def mark(self) -> str:
        """Warning for every file of a result without a guarantee, or "" if the guarantee holds."""
        return mark_of(self.mechanism)

    @property
    def doubts(self) -> list[str]:
        """List with a sentence about the rounds whose sums cannot be right. The sentence blames no
        party. The list is empty if there are no such rounds.
        """
        if not self.doubtful:
            return []
        name = "doubtful_rounds" if len(self.doubtful) > 1 else "doubtful_round"
        return [sentence(Fact.of(name, rounds=", ".join(map(str, self.doubtful))))]

    @property
    def epsilon(self) -> float:
        """Epsilon of the guarantee."""
        return self.mechanism.epsilon

    @property
    def rounds_covered(self) -> list[Fact]:
        """Facts about the number of rounds that the guarantee covers."""
        return [Fact.of("n_rounds", n=len(self.mechanism.rounds))]

    # not everything can be drawn
    def picture(self, records: FloatArray | None) -> Picture | None:  # noqa: ARG002
        """Return the picture of the result, or None if nothing can be drawn.

        records : records to draw as well, or None.
        """
        return None

    def statement(self) -> dict[str, Any]:
        """Return the content of `privacy.json`: the guarantee, and the settings that were taken
        from the data.
        """
        said = (
            mechanism_statement(self.mechanism)
            if self.plan is None
            else plan_statement(self.plan, len(self.included[-1]))
        )
        said["cautions"] = [*said["cautions"], *self.cautions, *self.doubts]
        if self.plan is not None:
            said["federated"]["unconfirmed"] = list(self.unconfirmed)
        finite: dict[str, Any] = finite_or_none(said)
        return {"day": self.day} | finite

    def found(self) -> dict[str, Any]:
        """Return the findings as plain data (for JSON), without the privacy statement."""
        raise NotImplementedError

    def summary(self) -> dict[str, Any]:
        """Return the whole result as plain data (for `--json`)."""
        said = {
            "private": self.private,
            **self.found(),
            "leaks": list(self.leaks),
            "privacy": self.statement(),
        }
        return said | (
            {"rounds": rounds(self.mechanism, self.included, self.doubtful)} if self.plan else {}
        )

    def files(self) -> dict[str, bytes]:
        """Return the text files of the result by name. The picture is not one of them."""
        name, settings = (
            (MECHANISM, self.mechanism.to_toml())
            if self.plan is None
            else (PLAN, self.plan.to_toml())
        )
        if not self.has_noise:  # a comment: the seal covers the content only
            settings = f"# {NOT_PRIVATE}: this run added no noise\n{settings}"
        elif self.leaks:
            settings = f"# {self.mark}\n{settings}"
        texts = {PRIVACY: to_json(self.statement()), name: settings}
        if self.plan is not None:
            texts[ROUNDS] = to_json(rounds(self.mechanism, self.included, self.doubtful))
        return {name: text.encode() for name, text in texts.items()}


def mark_of(m: AnyRun) -> str:
    """Return the warning for every file of a result with these settings, or "" if the guarantee
    holds.
    """
    if m.noise is Noise.NONE:
        return NOT_PRIVATE
    return sentence(NOT_COVERED) if m.taken_from_the_data else ""


def rounds(
    m: AnyRun, included: Sequence[Sequence[str]], doubtful: Sequence[int]
) -> list[dict[str, Any]]:
    """Return a table of the rounds as plain data (for JSON), with the clients in the sum of each
    round.

    m : settings of the run.
    included : names of the clients in the sum of each round.
    doubtful : rounds, from 1, whose sums cannot come from honest clients. They are marked.
    """
    T = len(m.rounds)  # what comes after them is the loss
    return [
        {"round": number, "included": list(names)}
        | ({"of": "loss"} if number > T else {})
        | ({"doubtful": True} if number in doubtful else {})
        for number, names in enumerate(included, 1)
    ]


def unfinished_caution(plan: Plan, unfinished: Unfinished) -> str:
    """Return a caution about the centroids of a run that ended early. It names the last round, and
    the checks that are needed before the centroids are used.
    """
    shared = plan.trust is TrustMode.CLIENT_NOISE
    name = "unconfirmed" if shared else "unconfirmed_with_server_noise"
    return sentence(Fact.of(name, round=unfinished.round, n_rounds=plan.mechanism.n_rounds))


def unfinished_files(plan: Plan, unfinished: Unfinished, reason: str) -> dict[str, bytes]:
    """Return the files of a run that ended early, by name.

    The guarantee covers the centroids in these files, and the rounds that made them are charged.
    The centroids keep the order that they have in the rounds.

    plan : plan of the run.
    unfinished : centroids and rounds of the run so far.
    reason : sentence that says why the run ended.
    """
    m = plan.mechanism
    said: dict[str, Any] = {
        "caution": unfinished_caution(plan, unfinished),
        "reason": reason,
        "after_round": unfinished.round,
        "n_rounds": m.n_rounds,
        "features": list(m.domain.features),
        "centroids": m.domain.from_grid(unfinished.centroids).tolist(),
        "rounds": rounds(m, unfinished.included, unfinished.doubtful),
        "privacy": plan_statement(plan, len(unfinished.included[-1])),
    }
    return {UNFINISHED: to_json(said).encode(), PLAN: plan.to_toml().encode()}


def finite_or_none(value: Any) -> Any:
    """Return a tree of tables and lists in which None replaces infinities and NaN. JSON has
    neither.
    """
    if isinstance(value, dict):
        return {key: finite_or_none(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [finite_or_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
