"""Which kind of mechanism a plan holds, for tests of one of them."""

from fastlloyd.lloyd_mechanism import LloydMechanism
from fastlloyd.plan import Plan


def lloyd_of(plan: Plan) -> LloydMechanism:
    """The mechanism of a plan for one of the paper's algorithms."""
    assert isinstance(plan.mechanism, LloydMechanism)
    return plan.mechanism
