"""Federated run in this process, with records that are dealt to the clients at random: request,
preparation and outcome.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from fastlloyd.base.names import choose
from fastlloyd.base.problems import Faults, raising_problems
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.federation import simulation
from fastlloyd.federation.ledger import Account
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.simulation import Drop
from fastlloyd.jobs.account import Bill, BudgetAccount, Charged, charged_to, check_account
from fastlloyd.jobs.choices import ClusteringChoices, refuse_private
from fastlloyd.jobs.fit import placing, planned_settings
from fastlloyd.jobs.settings import check_clustering, opened
from fastlloyd.jobs.source import Openable, TableSource
from fastlloyd.jobs.watching import StepBegan, StepEnded, Watch, nobody
from fastlloyd.mechanisms.persons import max_clients


@dataclass(frozen=True, kw_only=True)
class FederationChoices:
    """Choices about a federation, as plain values. The planner makes every choice that is None.

    trust : "client-noise" or "server-noise". None means "server-noise" with preset="paper", and
        "client-noise" otherwise.
    max_dropouts, max_colluding, ring_bits : as in `Plan`.
    masks : "pairwise" or "group".
    """

    trust: str | None = None
    max_dropouts: int | None = None
    masks: str | None = None
    max_colluding: int = 1
    ring_bits: int | None = None

    def trust_mode(self, preset: str) -> TrustMode:
        """Return the trust mode, which is the party that adds the noise.

        preset : name of the preset.

        Raises PlanError for an unknown trust mode.
        """
        if self.trust is None:
            return TrustMode.SERVER_NOISE if preset == "paper" else TrustMode.CLIENT_NOISE
        return choose(TrustMode, self.trust, "trust")

    @property
    def chosen_masks(self) -> Masks | None:
        """Masks that were named, or None. Raises PlanError if the name is unknown."""
        return None if self.masks is None else choose(Masks, self.masks, "masks")

    def protocol(self, preset: str) -> ProtocolChoices:
        """Return the choices about the protocol, for the planner.

        preset : name of the preset.

        Raises PlanError for an unknown trust mode or unknown masks.
        """
        return ProtocolChoices(
            trust=self.trust_mode(preset),
            max_dropouts=self.max_dropouts or 0,
            max_colluding=self.max_colluding,
            ring_bits=self.ring_bits,
            masks=self.chosen_masks,
        )


@dataclass(frozen=True, kw_only=True)
class SimulateRequest:
    """Request for a simulation. Fields that are not listed here are explained in `FitRequest`.

    n_clients : number of clients.
    federation : choices about the federation.
    drops : losses of clients, as in `parse_drop`: CLIENT@ROUND for one lost upload, or
        CLIENT@ROUND+ for a client that is missing from this round on. They must be chosen without a
        look at the records.
    """

    records: Openable[TableSource]
    choices: ClusteringChoices
    n_clients: int
    federation: FederationChoices = FederationChoices()
    drops: Sequence[str] = ()
    outside: str = Outside.CLIP.value
    account: BudgetAccount | None = None

    @property
    def names(self) -> list[str]:
        """Names of the clients."""
        return [f"client-{number}" for number in range(1, self.n_clients + 1)]

    def prepare(self, faults: Faults | None = None, watch: Watch = nobody) -> "PreparedSimulation":
        """Open the records and design the plan. No budget is spent.

        faults : faults that the caller found before, or None.
        watch : function that receives events of the job.

        Raises Problems with every fault.
        """
        faults = Faults() if faults is None else faults
        choices = self.choices
        check_clustering(choices, faults)
        with faults.noted("bounds"):
            refuse_private(choices)
        outside = faults.value(Outside.CLIP, lambda: choose(Outside, self.outside, "outside"))
        drops = list[Drop]()
        for text in self.drops:
            with faults.noted("drop"):
                drops.append(simulation.parse_drop(text, self.names))
        with faults.noted("trust"):
            self.federation.trust_mode(choices.preset)
        with faults.noted("masks"):
            _ = self.federation.chosen_masks
        check_account(self.account, choices.n_records, faults)
        source = opened(self.records, faults, choices.stated)
        with raising_problems():
            return self._planned(source, outside, drops, watch)

    def _planned(
        self, source: TableSource, outside: Outside, drops: list[Drop], watch: Watch
    ) -> "PreparedSimulation":
        """Design the plan, and compute the balance of the account."""
        choices, account = self.choices, self.account
        settings, leaks = planned_settings(
            choices,
            source,
            is_counted=account is not None,
            # a person counts at every client that may have rows of the person
            cap_factor=max_clients(choices.persons) if choices.cap is None else 1,
        )
        roster, identities = simulation.roster(self.names, settings.n_records)
        absent = len({drop.client for drop in drops})
        protocol = self.federation.protocol(choices.preset)
        if self.federation.max_dropouts is None:
            protocol = replace(protocol, max_dropouts=absent)
        if drops and protocol.masks is None:
            # with group masks, clients may be missing from a round
            protocol = replace(protocol, masks=Masks.GROUP)
        with placing(settings.n_clusters, watch):
            plan = design_plan(
                settings,
                clients=roster,
                run_id=os.urandom(16),
                simulated=True,
                protocol=protocol,
            )
        simulation.check_drops(plan, drops)
        bill, balance = None, tuple[Account, ...]()
        if account is not None:
            account.check(leaks)
            bill = account.bill(plan)
            balance = account.balance(bill)
        return PreparedSimulation(
            self, source, outside, plan, identities, tuple(drops), leaks, bill, balance
        )


class SimulationOutcome(NamedTuple):
    """Result of a simulation, and its cost. Fields that are not listed here are explained in
    `FitOutcome`.

    plan : plan that was run.
    run : result that all clients share.
    """

    plan: Plan
    run: ClientResult
    charged: Charged
    source: TableSource
    leaks: tuple[str, ...]


class PreparedSimulation(NamedTuple):
    """Simulation before any budget is spent. Fields that are not listed here are explained in
    `PreparedFit`.

    plan : plan that will be run.
    identities : private key of each client, by name.
    drops : losses of clients.
    """

    request: SimulateRequest
    source: TableSource
    outside: Outside
    plan: Plan
    identities: Mapping[str, Identity]
    drops: tuple[Drop, ...]
    leaks: tuple[str, ...]
    bill: Bill | None
    balance: tuple[Account, ...]

    def carry_out(self, watch: Watch = nobody) -> SimulationOutcome:
        """Deal the records, charge the account and run the plan. Parameters and errors are those of
        `PreparedFit.carry_out`.
        """
        plan = self.plan
        watch(StepBegan(what=f"{plan.n_clients} clients at work"))
        with (
            self.source.dealt(plan, self.outside, watch) as parts,
            charged_to(self.request.account, self.bill, watch) as charged,
        ):
            # charge all rounds now, because sessions may draw noise at any time
            charged.drawing(plan.mechanism.n_rounds - 1)
            run = simulation.simulate(plan, self.identities, parts, drops=self.drops)
        watch(StepEnded())
        return SimulationOutcome(plan, run, charged, self.source, self.leaks)
