"""Page to sign for a plan: its digest, the agreement in plain words, all fingerprints, and lines
for signatures.
"""

import textwrap

from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.reports.explain import protected, tables
from fastlloyd.reports.facts import said, sentence, sentences
from fastlloyd.reports.outside import bullets
from fastlloyd.reports.plan_facts import (
    attendance,
    authority,
    cap,
    found,
    has_loss,
    lacking,
    parties,
    persons,
    ranges,
    study,
    waiting,
)
from fastlloyd.reports.recipe_facts import of_recipe

# how every page begins, so that --force replaces nothing else
PAGE_HEADING = "A FASTLLOYD PLAN, TO COMPARE AND TO SIGN"
WIDTH = 76
TO_FILL_IN = f"As `fastlloyd ledger show` says: epsilon {'_' * 12} at delta {'_' * 10}"


def page(plan: Plan, spent: str | None = None) -> str:
    """Return the page to sign as plain text for a printer, at most 76 columns wide unless a name is
    longer.

    plan : plan to sign.
    spent : sentences about the budget that the reader's earlier runs spent. If it is None, the page
        leaves room to write them.
    """
    sections = [
        f"{PAGE_HEADING}\n{'=' * len(PAGE_HEADING)}",
        f"Digest of the plan (SHA-256):\n\n{_digest(plan.digest.hex())}",
        _filled(
            "Before you sign: run `fastlloyd plan digest plan.toml` on your own machine,"
            " on the file you were sent, and compare all 64 digits with those above. Ask"
            " each party for the fingerprint that `fastlloyd keygen` showed, over a"
            " different channel from the plan's, and compare the fingerprint too. If one"
            " digit differs, do not sign and do not take part."
        ),
        "What is agreed\n--------------\n" + "\n".join(_item(line) for line in _agreed(plan)),
        "What it protects\n----------------\n"
        + "\n\n".join(_filled(line) for line in protected(plan)),
        *(_rows(table) for table in tables(plan)),
        _filled(sentences(persons(plan), plan.mechanism.unit)),
        "Outside the guarantee\n---------------------\n" + _rows(bullets(plan)),
        "Budget spent on our records before\n----------------------------------\n"
        + _rows(spent or TO_FILL_IN),
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
    loss = Fact.of("loss_estimated" if has_loss(m) else "loss_not_estimated")
    trust = Fact.of("trust", trust=plan.trust.value, masks=plan.masks.value)
    agreed: list[Fact | Facts] = [
        *study(plan),
        found("finds", m, n_rounds=len(m.rounds)),
        found("ranges", m, ranges=ranges(m)),
        *([Fact.of("recipe_of_plan")] if m.domain.recipe else []),
        *of_recipe(m.domain.recipe),
        (cap(m), Fact.of("n_expected", n_expected=m.n_expected)),
        Fact.of("budget", epsilon=epsilon_up(m.epsilon), delta=delta_up(m.delta)),
        Fact.of("relation", relation=m.neighboring_relation.value),
        *([loss] if "loss_estimate" in m.facts() else []),
        (trust, attendance(plan)),
        waiting(plan),
        Fact.of("one_run", run_id=plan.run_id),
    ]
    return said(agreed, m.unit)


def _parties(plan: Plan) -> list[str]:
    """Return a line for each party with the SHA-256 of its certificate, and one for the authority.
    If the plan lacks a part that a run over a network needs, a last line names this part.
    """
    rows = []
    for role, fingerprint, ends in parties(plan):
        who = sentence(role, plan.mechanism.unit)
        rows.append(
            _item(f"{who}; certificate until {ends}:") + f"\n{_digest(fingerprint)}"
            if fingerprint
            else _item(f"{who}; no certificate")
        )
    return rows + [_filled(line) for line in said([*authority(plan), *lacking(plan)])]


def _digest(digest: str) -> str:
    return "\n".join("    " + in_groups(digest[i : i + 32]) for i in range(0, len(digest), 32))


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH)


def _item(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="- ", subsequent_indent="  ")


def _rows(table: str) -> str:
    """Return the lines wrapped to the page. Lines that begin with a dash are items of a list."""
    return "\n".join(
        _item(line[2:]) if line.startswith("- ") else _filled(line) for line in table.splitlines()
    )


def _line_to_sign_on(name: str) -> str:
    return f"\n{name}\n  name {'_' * 24}  date {'_' * 10}  signature {'_' * 16}"
