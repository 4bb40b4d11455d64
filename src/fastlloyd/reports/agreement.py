"""A plan on paper: its digest in groups, what is agreed in plain words, everyone's fingerprint, and
lines to sign on.
"""

import textwrap

from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.reports.explain import (
    attendance,
    authority,
    bounds,
    certainty_table,
    coalition_table,
    lacking,
    most_in_all,
    parties,
    persons,
    protection,
    study,
    waiting,
)
from fastlloyd.reports.outside import bullets, outside_of_plan

# how every page begins, so that --force replaces nothing else
PAGE_HEADING = "A FASTLLOYD PLAN, TO COMPARE AND TO SIGN"
WIDTH = 76
TO_FILL_IN = f"As `fastlloyd ledger show` says: epsilon {'_' * 12} at delta {'_' * 10}"


def page(plan: Plan, spent: str | None = None) -> str:
    """Return plain text for a printer, at most 76 columns wide unless a name is longer.

    spent : what its reader's own runs spent before, in sentences; None leaves room to write it.
    """
    sections = [
        f"{PAGE_HEADING}\n{'=' * len(PAGE_HEADING)}",
        f"Digest of the plan (SHA-256):\n\n{_digest(plan.digest.hex())}",
        _filled(
            "Before you sign: run `fastlloyd plan digest plan.toml` on your own machine, on the"
            " file you were sent, and compare all 64 digits with those above. Ask each party, over"
            " a different channel from the one the plan came by, for the fingerprint that"
            " `fastlloyd keygen` showed it, and compare that too. If one digit differs, do not sign"
            " and do not take part."
        ),
        "What is agreed\n--------------\n" + "\n".join(_item(line) for line in _agreed(plan)),
        "What it protects\n----------------\n"
        + "\n\n".join(_filled(line) for line in protection(plan).splitlines()),
        *(_rows(table) for table in (coalition_table(plan), certainty_table(plan.mechanism))),
        _filled(persons(plan)),
        "Outside the guarantee\n---------------------\n" + _rows(bullets(outside_of_plan(plan))),
        "What was spent on our records before\n------------------------------------\n"
        + _filled(spent or TO_FILL_IN),
        "Who takes part\n--------------\n" + "\n\n".join(_parties(plan)),
        "Signatures\n----------\n"
        + _filled(
            "I compared the digest and the fingerprints above, and agree to one run of this plan."
        )
        + "\n"
        + "\n".join(_line_to_sign_on(name) for name in (plan.server.name, *plan.names)),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _agreed(plan: Plan) -> list[str]:
    m = plan.mechanism
    return [
        *study(plan),
        f"Algorithm {m.name} finds {m.aim} in {len(m.rounds)} rounds.",
        f"Features and their public {m.clipped_to}: {bounds(m)}.",
        f"{most_in_all(m)}, planned for {m.n_expected}.",
        (
            f"Privacy budget of the whole run: epsilon {epsilon_up(m.epsilon)}, delta"
            f" {delta_up(m.delta)}."
        ),
        f"Neighbouring relation: {m.neighboring_relation.value}.",
        *m.agreed(),
        f"Trust: {plan.trust.value}, with {plan.masks.value} masks. {attendance(plan)}",
        waiting(plan),
        f"One run, {plan.run_id}; a further one needs a further plan.",
    ]


def _parties(plan: Plan) -> list[str]:
    """Return each party with the SHA-256 of its certificate; last, what is missing for a run over a
    network.
    """
    said = [
        (
            _item(f"{who}; certificate until {expires}:") + f"\n{_digest(fingerprint)}"
            if fingerprint
            else _item(f"{who}; no certificate")
        )
        for who, fingerprint, expires in parties(plan)
    ]
    return said + [_filled(sentence) for sentence in (*authority(plan), *lacking(plan))]


def _digest(digest: str) -> str:
    return "\n".join("    " + in_groups(digest[i : i + 32]) for i in range(0, len(digest), 32))


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH)


def _item(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="- ", subsequent_indent="  ")


def _rows(table: str) -> str:
    """Fill lines; those that begin with a dash are items."""
    return "\n".join(
        _item(line[2:]) if line.startswith("- ") else _filled(line) for line in table.splitlines()
    )


def _line_to_sign_on(name: str) -> str:
    return f"\n{name}\n  name {'_' * 24}  date {'_' * 10}  signature {'_' * 16}"
