"""Request of a client to take part in a run over a network, as one file."""

import hmac
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from fastlloyd.errors import PlanError
from fastlloyd.federation.client_news import own_run_id
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.jobs.approvals import Approval
from fastlloyd.jobs.client import ClientRequest
from fastlloyd.jobs.parties import check_member, place_of_store
from fastlloyd.jobs.request_file import RequestFile
from fastlloyd.records.recipe.here import Here
from fastlloyd.records.recipe.rows import Using


class JoinFile(RequestFile, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="join"):
    """Request of a client. Its run id is the id of this client's run in the ledger (`own_run_id`).
    So the same request continues a run that was stopped.

    plan : text of the plan.
    digest : digest of the plan that the owner of the records agreed to, 64 hex digits.
    key : full path of the private identity.
    dataset : name of the data set in the ledger.
    here : format and column names of the owner's file of records.
    approval : approval of the owner of the records, or None.
    is_rehearsal : whether to rehearse the run only.
    """

    command: ClassVar[str] = "join"
    plan: str
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    key: str
    dataset: str
    here: Here = Here()
    approval: Approval | None = None
    is_rehearsal: bool = False

    @property
    def member(self) -> PublicIdentity:
        """Public identity of the client. Raises IdentityError if its file cannot be used."""
        return PrivateIdentity.public_of(Path(self.key))

    @property
    def store(self) -> Path:
        """Path of the client's store."""
        return place_of_store(self.member.name, Path(self.key), None)

    def agreed(self) -> Plan:
        """Return the plan. Raises PlanError unless it is the plan that was agreed on, and can be
        run over a network.
        """
        plan = Plan.from_toml(self.plan)
        if not hmac.compare_digest(plan.digest.hex(), self.digest):
            raise PlanError(
                "the plan in the request does not have the digest that the request names"
            )
        plan.check_networked()
        return plan

    def request(self) -> ClientRequest:
        """Return the request. No record is read.

        Raises PlanError or IdentityError if plan, digest, identity and run id do not belong
        together. Raises Problems or BudgetError for another field that is not valid.
        """
        plan, member = self.agreed(), self.member
        check_member(member, plan, Path(self.key))
        if self.run_id != id_of_run(plan, member):
            raise PlanError("the request has the id of another run; nothing was done")
        agreed = plan.mechanism.domain.recipe
        return ClientRequest(
            plan=plan,
            member=member,
            account=self.account(self.dataset),
            store=self.store,
            data=self.records,
            unit_column=None if plan.mechanism.persons is None else self.here.unit_column,
            recipe=None if agreed is None else Using(features=tuple(agreed), here=self.here),
            layout=self.here.layout,
        )


def id_of_run(plan: Plan, member: PublicIdentity) -> str:
    """Return the id of a client's run in the ledger, 32 hex digits."""
    return own_run_id(bytes.fromhex(plan.run_id), bytes.fromhex(member.signing_key)).hex()
