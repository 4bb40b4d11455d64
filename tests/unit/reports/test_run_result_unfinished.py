"""What a run that ended early leaves says how many took part, and what they and the server could
learn together.
"""

import json

import pytest

from fastlloyd.federation.plan.plan import Masks, Plan
from fastlloyd.federation.protocol.actions import Unfinished
from fastlloyd.reports.coalitions import coalitions
from fastlloyd.reports.run_result import UNFINISHED, unfinished_files
from federation import make_plan
from kinds import lloyd_of


@pytest.mark.parametrize("masks", Masks)
def test_the_statement_is_that_of_the_clients_in_the_last_sum(masks: Masks) -> None:
    plan = make_plan(5, max_dropouts=2, masks=masks)
    centroids = lloyd_of(plan).initial_centroids()
    left = Unfinished(centroids=centroids, included=(plan.names[:4],))
    files = unfinished_files(plan, left, "a client is gone")
    said = json.loads(files[UNFINISHED])
    federated = said["privacy"]["federated"]
    assert federated["n_included"] == 4
    assert [row["epsilon"] for row in federated["coalitions"]] == [
        epsilon for _, epsilon in coalitions(plan)
    ]
    assert (said["after_round"], said["n_rounds"]) == (1, plan.mechanism.n_rounds)
    assert "compare them before use" in said["caution"]
    assert any(
        Plan.from_toml(text.decode()) == plan for name, text in files.items() if name != UNFINISHED
    )
