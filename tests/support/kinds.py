"""Which kind of mechanism a plan holds, for tests of one of them."""

from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism


def lloyd_of(plan: Plan) -> LloydMechanism:
    """The mechanism of a plan for one of the paper's algorithms."""
    assert isinstance(plan.mechanism, LloydMechanism)
    return plan.mechanism
