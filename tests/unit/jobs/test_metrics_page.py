"""The page of metrics: exactly the public fields, at the address that its owner says."""

import re

import pytest

from fastlloyd.errors import NetworkError
from fastlloyd.jobs import metrics
from fastlloyd.jobs.live import Live, Sight
from fastlloyd.jobs.metrics import address_of, page

SIGHT = Sight(
    name="sums", role="server", run_id="0" * 32, step='round 2 of "7"', n_rounds=7, n_clients=3,
    n_closed=1, n_awaited=1, awaited=("b",), connected=("a", "c"), not_told=("a",),
    seconds_left=9.0, sent=10, received=20,
)  # fmt: skip
LIVE = Live(sight=SIGHT, began=1.5, since=2.5, written=3.5, steps=(("joining", 1.0),), pid=99)
SERVER = r"""
# HELP fastlloyd_info Party, run and current step as labels; always 1.
# TYPE fastlloyd_info gauge
fastlloyd_info{name="sums",role="server",run_id="00000000000000000000000000000000",step="round 2 of \"7\""} 1
# HELP fastlloyd_rounds Rounds in the plan.
# TYPE fastlloyd_rounds gauge
fastlloyd_rounds 7
# HELP fastlloyd_rounds_closed Rounds whose sums are known.
# TYPE fastlloyd_rounds_closed gauge
fastlloyd_rounds_closed 1
# HELP fastlloyd_clients Clients in the plan.
# TYPE fastlloyd_clients gauge
fastlloyd_clients 3
# HELP fastlloyd_clients_awaited Clients that have not answered in this step.
# TYPE fastlloyd_clients_awaited gauge
fastlloyd_clients_awaited 1
# HELP fastlloyd_sent_bytes_total Bytes that this process sent.
# TYPE fastlloyd_sent_bytes_total counter
fastlloyd_sent_bytes_total 10
# HELP fastlloyd_received_bytes_total Bytes that this process received.
# TYPE fastlloyd_received_bytes_total counter
fastlloyd_received_bytes_total 20
# HELP fastlloyd_began_timestamp_seconds Start of this process.
# TYPE fastlloyd_began_timestamp_seconds gauge
fastlloyd_began_timestamp_seconds 1
# HELP fastlloyd_step_timestamp_seconds Start of the current step.
# TYPE fastlloyd_step_timestamp_seconds gauge
fastlloyd_step_timestamp_seconds 2
# HELP fastlloyd_seen_timestamp_seconds Time of these values.
# TYPE fastlloyd_seen_timestamp_seconds gauge
fastlloyd_seen_timestamp_seconds 3
# HELP fastlloyd_over 1 after the end of the run in this process, otherwise 0.
# TYPE fastlloyd_over gauge
fastlloyd_over 0
# HELP fastlloyd_client_awaited At a server: 1 if the client has not answered.
# TYPE fastlloyd_client_awaited gauge
fastlloyd_client_awaited{client="b"} 1
fastlloyd_client_awaited{client="a"} 0
fastlloyd_client_awaited{client="c"} 0
# HELP fastlloyd_client_connected At a server: 1 if the client is connected.
# TYPE fastlloyd_client_connected gauge
fastlloyd_client_connected{client="b"} 0
fastlloyd_client_connected{client="a"} 1
fastlloyd_client_connected{client="c"} 1
"""


def test_the_page_has_exactly_the_public_fields() -> None:
    assert page(LIVE) == SERVER.removeprefix("\n")
    assert page(None) == ""


def test_the_names_of_metrics_are_unique_and_every_value_is_a_number() -> None:
    lines = [line for line in page(LIVE).splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"fastlloyd_[a-z_]+(\{.*\})? [0-9]+", line) for line in lines)
    names = [m.name for m in (metrics.INFO, *metrics.METRICS, *metrics.OF_CLIENTS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),  # noqa: S104
        ("[::1]:65535", ("::1", 65535)),
        ("mon.example.org:80", ("mon.example.org", 80)),
    ],
)
def test_an_address_without_a_host_is_the_loopback(said: str, address: tuple[str, int]) -> None:
    assert address_of(said) == address


@pytest.mark.parametrize("said", ["", "0", "65536", ":1", "a b:1", "host:", "::1:9", "1\n"])
def test_another_text_is_refused(said: str) -> None:
    with pytest.raises(NetworkError, match="not an address"):
        address_of(said)
