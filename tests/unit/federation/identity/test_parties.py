"""Who takes part is known by keys of their own; a plan says what a networked run still lacks, and
refuses what is wrong.
"""

import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from designs import design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import PlanError
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.identity.parties import MAX_TIMEOUT, check_address
from fastlloyd.federation.plan.plan import Client, Plan, Server, Timeouts
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD

NOW = datetime.now(UTC)
EXPIRES = NOW.date() + timedelta(days=100)
NAMES = ("clinic-a", "clinic-b", "clinic-c")
ADDRESS = "sums.example.org:8443"


@functools.cache
def identity(name: str) -> PrivateIdentity:
    return PrivateIdentity.make(name, EXPIRES)


@functools.cache
def networked() -> Plan:
    return design_plan(
        FASTLLOYD,
        Domain(features=("x", "y"), lower=(0.0, 0.0), upper=(1.0, 1.0), fraction_bits=16),
        clients=tuple(identity(name).public.client(400) for name in NAMES),
        server=identity("sums").public.server(ADDRESS),
        run_id=bytes(range(16)),
        n_clusters=2,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        n_iterations=2,
    )


def changed(**fields: Any) -> Plan:
    return msgspec.structs.replace(networked(), **fields)


def with_client(position: int, **fields: Any) -> tuple[Client, ...]:
    clients = list(networked().clients)
    clients[position] = msgspec.structs.replace(clients[position], **fields)
    return tuple(clients)


def with_server(**fields: Any) -> Server:
    return msgspec.structs.replace(networked().server, **fields)


def test_a_plan_with_everyones_certificate_is_read_back_and_can_run_over_a_network() -> None:
    plan = networked()
    assert Plan.from_toml(plan.to_toml()) == plan
    plan.check_networked(NOW)
    plan.check_networked()
    assert plan.lacking == ""
    assert [c.name for c in plan.certificates()] == ["sums", *NAMES]
    assert [c.fingerprint for c in plan.certificates()] == [
        plan.server.fingerprint,
        *(c.fingerprint for c in plan.clients),
    ]
    assert len({c.fingerprint for c in plan.certificates()}) == 4


LACKING: dict[str, tuple[Callable[[], Plan], str]] = {
    "certificate of the server": (
        lambda: changed(server=with_server(certificate="")),
        (
            "the plan has no certificate of the server; add one with `fastlloyd plan renew PLAN"
            " --server FILE`"
        ),
    ),
    "address": (
        lambda: changed(server=with_server(address="")),
        "the plan has no address of the server; add it",
    ),
    "signing key": (
        lambda: changed(clients=with_client(1, signing_key="", certificate="")),
        "client 'clinic-b' has no signing_key in the plan",
    ),
    "certificate of a client": (
        lambda: changed(clients=with_client(2, certificate="")),
        (
            "client 'clinic-c' has no certificate in the plan; add its public file with `fastlloyd"
            " plan renew PLAN --member FILE`"
        ),
    ),
}


@pytest.mark.parametrize("case", LACKING)
def test_a_plan_without_some_of_it_is_valid_for_simulations_and_says_what_a_network_needs(
    case: str,
) -> None:
    make, sentence = LACKING[case]
    plan = make()
    assert Plan.from_toml(plan.to_toml()) == plan
    assert plan.lacking.startswith(sentence)
    with pytest.raises(PlanError) as caught:
        plan.check_networked(NOW)
    assert str(caught.value) == plan.lacking


def test_a_certificate_that_is_not_valid_now_stops_a_run_and_nothing_else() -> None:
    plan, late = networked(), NOW + timedelta(days=102)
    assert Plan.from_toml(plan.to_toml()) == plan
    with pytest.raises(PlanError, match=f"'sums' expired.*{EXPIRES}.*plan renew"):
        plan.check_networked(late)
    with pytest.raises(PlanError, match=r"valid before.*check.*clock$"):
        plan.check_networked(NOW - timedelta(days=3))


CHANGES: dict[str, Callable[[], Plan]] = {
    "a client's certificate": lambda: changed(clients=with_client(0, certificate="")),
    "a client's keys": lambda: changed(
        clients=(
            PrivateIdentity.make("clinic-a", EXPIRES).public.client(400),
            *networked().clients[1:],
        )
    ),
    "the server's certificate": lambda: changed(
        server=PrivateIdentity.make("sums", EXPIRES).public.server(ADDRESS)
    ),
    "no certificate of the server": lambda: changed(server=with_server(certificate="")),
    "the server's address": lambda: changed(server=with_server(address="sums.example.org:8444")),
    "the server's name": lambda: changed(server=Server(address=ADDRESS)),
    **{
        # a default
        f"the timeout of {step}": lambda step=step: changed(timeouts=Timeouts(**{step: 17}))  # type: ignore[misc]
        for step in Timeouts.__struct_fields__
    },
}


def test_the_digest_covers_every_field_there_is_about_a_network() -> None:
    digests = {case: make().digest for case, make in CHANGES.items()} | {"none": networked().digest}
    assert len(set(digests.values())) == len(digests) == 11
    again = {case: Plan.from_toml(make().to_toml()).lacking for case, make in CHANGES.items()}
    assert all(bool(again[case]) == (case in ("a client's certificate", "no certificate of the server", "the server's name"))
               for case in again)  # fmt: skip


WRONG: dict[str, tuple[Callable[[], Plan], str]] = {
    "one certificate of two clients": (
        lambda: changed(clients=(*networked().clients[:2], identity("clinic-a").public.client(1))),
        "two clients have the name 'clinic-a'",
    ),
    "another client's certificate": (
        lambda: changed(clients=with_client(0, certificate=networked().clients[1].certificate)),
        "the certificate of 'clinic-a' is for 'clinic-b'",
    ),
    "the server's certificate at a client": (
        lambda: changed(clients=with_client(0, certificate=networked().server.certificate)),
        "the certificate of 'clinic-a' is for 'sums'",
    ),
    "a client as the server": (
        lambda: changed(server=identity("clinic-a").public.server(ADDRESS)),
        "server and client are both called 'clinic-a'",
    ),
    "another's signing key": (
        lambda: changed(clients=with_client(0, signing_key="ab" * 32)),
        "client 'clinic-a' has another signing_key than its certificate",
    ),
    "a certificate without a signing key": (
        lambda: changed(clients=with_client(0, signing_key="")),
        "client 'clinic-a' has another signing_key than its certificate",
    ),
    "no certificate but some text": (
        lambda: changed(clients=with_client(0, certificate="AAAA")),
        "the certificate of 'clinic-a' was changed",
    ),
    "no base64": (
        lambda: changed(server=with_server(certificate="?")),
        "'sums' was changed",
    ),
    "a server without a name": (
        lambda: changed(server=Server(name="")),
        "server name '' is not usable",
    ),
    "a server of two lines": (lambda: changed(server=Server(name="a\n")), "is not usable"),
    "a server nowhere": (
        lambda: changed(server=with_server(address="nowhere")),
        "server address 'nowhere' is not HOST:PORT",
    ),
    **{
        f"{seconds} s of {step}": (
            # defaults
            lambda step=step, seconds=seconds: changed(timeouts=Timeouts(**{step: seconds})),  # type: ignore[misc]
            f"the timeout of {step} is {seconds} s; expected 1 to 604800",
        )
        for step in Timeouts.__struct_fields__
        for seconds in (0, -1, MAX_TIMEOUT + 1)
    },
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_about_a_party_is_refused_in_a_sentence(case: str) -> None:
    make, sentence = WRONG[case]
    with pytest.raises(PlanError) as caught:
        make()
    assert sentence in str(caught.value)


def test_nobody_has_the_keys_of_another_under_a_name_of_their_own() -> None:
    """Two certificates, two names and two signing keys, but one key of the channel: who holds it is
    both.
    """
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from fastlloyd.federation.identity.certificates import make_certificate

    key: Any = load_pem_private_key(identity("clinic-a").tls_key_pem(), None)
    signing = identity("clinic-b").signing.public
    twin = make_certificate("clinic-b", signing, key, EXPIRES)
    with pytest.raises(
        PlanError,
        match=(r"'clinic-a'.*'clinic-b' have the"),
    ):
        changed(clients=with_client(1, certificate=twin))
    same_signing = make_certificate(
        "sums", identity("clinic-c").signing.public, _key("sums"), EXPIRES
    )
    with pytest.raises(PlanError, match=r"'sums'.*'clinic-c'.*same key"):
        changed(server=with_server(certificate=same_signing))


def _key(name: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(identity(name).tls_key_pem(), None)


def test_a_simulation_may_call_a_client_server() -> None:
    plan = changed(
        server=Server(), clients=with_client(0, name="server", signing_key="", certificate="")
    )
    assert plan.names[0] == "server"


@pytest.mark.parametrize(
    "address",
    [
        "h:1",
        "a.b.example:65535",
        "127.0.0.1:8443",
        "[::1]:8443",
        "[2001:db8::1]:1",
        "my_host:80",
        "localhost:50051",
    ],
)
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    check_address(address)
    assert changed(server=with_server(address=address)).server.address == address


@pytest.mark.parametrize(
    "address",
    ["h", ":1", "h:", "h:0", "h:65536", "h:99999", "h:1x", "h:-1", "h: 1", "h h:1", "https://h:1", "h:1/", "::1:8443", "[::1]",
     "[::g]:1", "[1]:2", "[]:1", "a..b:1", ".a:1", "a" * 64 + ":1", "h:1\n", "-h:1", "u@h:1", "\u00e4:1", "h:\u0661",
     "x" * 300 + ":1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(PlanError, match="not HOST:PORT"):
        check_address(address)


def test_a_plan_of_a_simulation_says_nothing_of_a_network() -> None:
    plan = changed(
        server=Server(), clients=tuple(Client(name=name, max_records=400) for name in NAMES)
    )
    assert plan.certificates() == []
    assert (plan.server.fingerprint, plan.clients[0].fingerprint) == ("", "")
    assert plan.lacking
    assert plan.timeouts == Timeouts(
        joining=3600, dealing=60, round=24 * 3600, confirming=24 * 3600
    )
