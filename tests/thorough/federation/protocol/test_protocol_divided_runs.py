"""Two groups of honest clients, each with the same t helpers of a lying server: both end with a
confirmed result exactly where a plan is refused for it.
"""

from itertools import product

import pytest

from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.transport.in_process import run_in_process
from federation import Federation, make_federation, make_plan

SHAPES = [
    (M, D, t) for M, D, t in product(range(2, 7), range(5), range(1, 4)) if t < M - D and D < M
]


def confirmed(federation: Federation, honest: list[str], helpers: list[str]) -> bool:
    """Whether these honest clients end with a result where a server shows them these helpers and
    nobody else. The helpers do all that the protocol asks for.
    """
    clients = [federation.client(name) for name in sorted((*honest, *helpers))]
    outcome = run_in_process(federation.server(), clients)
    return all(isinstance(outcome.clients[name], ClientResult) for name in honest)


@pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_server_with_helpers_leads_two_groups_to_two_results_exactly_where_the_plan_is_refused(
    shape: tuple[int, int, int], masks: Masks
) -> None:
    M, D, t = shape
    plan = make_plan(
        M, max_dropouts=D, max_colluding=t, masks=masks, n_clusters=1, n_features=1, n_iterations=2
    )
    federation, names = make_federation(plan), list(plan.names)
    helpers, honest = names[:t], names[t:]
    both = [
        confirmed(federation, honest[:n], helpers) and confirmed(federation, honest[n:], helpers)
        for n in range(1, len(honest))
    ]
    assert any(both) == plan.is_divisible == (M - t <= 2 * D)
    if plan.is_divisible:
        said = f"max_dropouts is {D} of {M} .* at most {(M - t - 1) // 2} if max_colluding is {t}:"
        with pytest.raises(PlanError, match=said):
            plan.check_undivided()
    else:
        plan.check_undivided()
