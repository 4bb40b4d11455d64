"""Facts about the differences between one cluster and the others. `profile.py` has the rule."""

from collections.abc import Iterator, Sequence
from typing import Final

from fastlloyd.mechanisms.facts import Fact, FarRecords
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.suggestion import Split
from fastlloyd.mechanisms.uncertainty import Status
from fastlloyd.records.recipe.checks import DROP, MIDDLE, REFUSE
from fastlloyd.reports.profile import Claim
from fastlloyd.reports.units import DayUnits, Units

_FAR: Final = {
    FarRecords.PULLED_IN: "reads_far_pulled_in",
    FarRecords.LEFT_OUT: "reads_far_left_out",
    FarRecords.COUNTED: "reads_far_counted",
}
_NOT_SETTLED: Final = {
    Status.FEW.value: "group_few",
    Status.MOVING.value: "group_moving",
    Status.STAYED.value: "group_stayed",
}


def not_settled(status: str) -> Fact | None:
    """Return the fact that says why nothing is concluded about a cluster, or None if its status is
    "settled".
    """
    name = _NOT_SETTLED.get(status)
    return None if name is None else Fact.of(name)


def side(claim: Claim, units: Units) -> Fact:
    """Return the fact that says where a centre is, such as "the highest"."""
    if isinstance(units, DayUnits):
        names = ("side_later", "side_latest"), ("side_earlier", "side_earliest")
    else:
        names = ("side_higher", "side_highest"), ("side_lower", "side_lowest")
    return Fact.of(names[claim.side < 0][claim.is_extreme])


def groups_rows(m: Mechanism) -> bool:
    """Return whether one person may have rows in several groups."""
    if m.persons is None:
        return False
    is_one_record = any(feature.per_person is not None for feature in m.domain.recipe or ())
    return not is_one_record or m.persons.max_clients > 1


def readings(m: Mechanism) -> tuple[Fact, ...]:
    """Return facts about the values that the error bars cover: clipped values, missing cells,
    logarithms, and far records.
    """
    return (Fact.of("reads_outside"), *_gaps(m), *_logarithms(m), Fact.of(_FAR[m.far_records]))


def _logarithms(m: Mechanism) -> Iterator[Fact]:
    for feature in m.domain.recipe or ():
        if feature.transform is not None:
            yield Fact.of("reads_log", name=feature.key)


def _gaps(m: Mechanism) -> Iterator[Fact]:
    for feature in m.domain.recipe or ():
        if feature.missing == MIDDLE:
            yield Fact.of("reads_gap_middle", name=feature.key)
        elif feature.missing not in (REFUSE, DROP):
            missing = feature.missing
            value = missing if isinstance(missing, str) else f"{missing:g}"
            yield Fact.of("reads_gap", name=feature.key, value=value)


def suggestions(split: Split | None) -> Sequence[Fact]:
    """Return the fact about the groups into which the data split most clearly, or nothing if the
    noisy votes do not decide.
    """
    if split is None:
        return ()
    if split.clearest is None:
        return (Fact.of("no_clear_groups"),)
    if split.finer is None:
        return (Fact.of("clearest_split", n=split.clearest),)
    return (Fact.of("clearest_and_finer_split", n=split.clearest, finer=split.finer),)
