"""Each way in which a connection does not come about has its sentence. The texts are gRPC's own, of
version 1.85.
"""

import base64
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from fastlloyd.errors import NetworkError
from fastlloyd.federation.identity.certificates import make_certificate
from fastlloyd.federation.transport.grpc.failures import explain
from fastlloyd.federation.transport.grpc.tls import (
    as_pem,
    asked_host,
    load_grpc,
    peer_fingerprint,
)
from network import tls_identity

ADDRESS = "aggregator.example:443"
ALL = "failed to connect to all addresses; last error: "
OWN = tls_identity("c0").certificate
EXPIRED = tls_identity("c0", days=-1).certificate


@pytest.mark.parametrize(
    ("details", "sentence"),
    [
        (
            (
                f"{ALL}UNKNOWN: ipv4:10.0.0.1:443: Failed to connect to remote host: Connection"
                " refused"
            ),
            "nobody listens at",
        ),
        (
            f"{ALL}UNAVAILABLE: ipv4:10.0.0.1:443: Socket closed",
            "refused this certificate: it is not in the roster",
        ),
        (
            f"{ALL}UNAVAILABLE: ipv4:10.0.0.1:443: recvmsg:Connection reset by peer",
            "refused this certificate",
        ),
        (
            f"{ALL}UNAVAILABLE: ipv4:10.0.0.1:443: Handshake read failed (Socket closed)",
            "closed the connection",
        ),
        (
            (
                f"{ALL}UNKNOWN: Failed to connect to remote host: getsockopt(SO_ERROR): Connection"
                " reset by peer"
            ),
            "closed the connection",
        ),
        (
            (
                f"{ALL}UNKNOWN: Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL:"
                " WRONG_VERSION_NUMBER"
            ),
            "does not speak TLS",
        ),
        (
            (
                f"{ALL}UNKNOWN: Tls handshake failed: CERTIFICATE_VERIFY_FAILED: certificate has"
                " expired"
            ),
            "has expired by this machine's",
        ),
        (
            (
                f"{ALL}UNKNOWN: Tls handshake failed: CERTIFICATE_VERIFY_FAILED: certificate is not"
                " yet valid"
            ),
            "not yet valid by this",
        ),
        (
            (
                f"{ALL}UNKNOWN: Tls handshake failed: CERTIFICATE_VERIFY_FAILED: self signed"
                " certificate"
            ),
            "the plan's certificate",
        ),
        (
            f"{ALL}UNKNOWN: UNAUTHENTICATED: Hostname Verification Check failed.",
            "the plan's certificate",
        ),
        (
            (
                "errors resolving aggregator.example:443: [address lookup failed: Domain name not"
                " found]"
            ),
            "cannot be resolved",
        ),
        (
            f"{ALL}UNKNOWN: Failed to connect to remote host: Timeout occurred: FD Shutdown",
            "no answer from",
        ),
        (f"{ALL}UNKNOWN: Failed to connect to remote host: No route to host", "no answer from"),
        (
            f"{ALL}UNKNOWN: HTTP proxy returned response code 407",
            "HTTP proxy in between does not connect to aggregator",
        ),
        ("something new", f"no connection to {ADDRESS}: something new"),
    ],
)
def test_every_failure_to_connect_has_a_sentence_that_names_the_address(
    details: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    said = explain(details, address=ADDRESS, planned=ADDRESS, own_certificate=OWN)
    assert sentence in said
    assert ADDRESS in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "details",
    [
        "Socket closed",
        "recvmsg:Connection reset by peer",
        "Broken pipe",
        "Handshake read failed (Socket closed)",
        "UNKNOWN: Tls handshake failed (TSI_PROTOCOL_FAILURE)",
        "Failed to connect to remote host: Connection refused",
        "Failed to connect to remote host: getsockopt(SO_ERROR): Connection reset by peer",
    ],
)
def test_a_client_that_was_connected_doubts_neither_its_certificate_nor_the_port(
    details: str,
) -> None:
    ends: dict[str, Any] = {
        "address": ADDRESS,
        "planned": "sums.example.org:8443",
        "own_certificate": OWN,
    }
    said = explain(f"{ALL}UNAVAILABLE: ipv4:10.0.0.1:443: {details}", **ends, was_connected=True)
    assert ADDRESS in said
    for doubt in (
        "certificate",
        "roster",
        "check the port",
        "wrong",
        "not started",
        "--server",
        "TLS",
    ):
        assert doubt not in said
    expired = explain(f"{ALL}{details}", **ends | {"own_certificate": EXPIRED}, was_connected=True)
    assert ("the certificate expired on 20" in expired) is ("Connection refused" not in details)


@pytest.mark.parametrize(
    "details",
    ["CERTIFICATE_VERIFY_FAILED: self signed", "address lookup failed", "No route to host"],
)
def test_what_has_no_other_cause_after_a_connection_is_said_as_before_one(details: str) -> None:
    ends: dict[str, Any] = {"address": ADDRESS, "planned": ADDRESS, "own_certificate": OWN}
    assert explain(f"{ALL}{details}", **ends, was_connected=True) == explain(
        f"{ALL}{details}", **ends
    )


def test_a_refused_certificate_that_has_expired_is_said_to_have() -> None:
    said = explain(
        f"{ALL}UNAVAILABLE: Socket closed",
        address=ADDRESS,
        planned=ADDRESS,
        own_certificate=EXPIRED,
    )
    assert "refused this certificate: the certificate expired on 20" in said


def test_the_address_that_may_be_wrong_is_named_by_where_it_came_from() -> None:
    for details in ("Connection refused", "address lookup failed"):
        of_plan = explain(f"{ALL}{details}", address=ADDRESS, planned=ADDRESS, own_certificate=OWN)
        given = explain(
            f"{ALL}{details}", address=ADDRESS, planned="sums.example.org:8443", own_certificate=OWN
        )
        assert "the address in the plan" in of_plan
        assert "--server" not in of_plan
        assert "the address given as --server (the plan has sums.example.org:8443)" in given
        assert "the address in the plan" not in given


def test_the_setting_that_names_a_proxy_is_named_and_its_password_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("https_proxy", "http://someone:secret@proxy:3128")
    said = explain(
        f"{ALL}Connection refused", address=ADDRESS, planned=ADDRESS, own_certificate=OWN
    )
    assert "in https_proxy" in said
    assert "secret" not in said


def test_without_grpc_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_SSL_CIPHER_SUITES", "")
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(NetworkError, match=r'not installed.*"grpcio'):
        load_grpc()


def test_a_peer_is_known_only_by_one_certificate_over_tls_1_3() -> None:
    pem = as_pem(OWN)
    assert peer_fingerprint({"x509_pem_cert": [pem], "ssl_tls_version": [b"TLSv1.3"]}) is not None
    assert peer_fingerprint({"x509_pem_cert": [pem], "ssl_tls_version": [b"TLSv1.2"]}) is None
    assert peer_fingerprint({"x509_pem_cert": [pem]}) is None
    assert peer_fingerprint({"ssl_tls_version": [b"TLSv1.3"]}) is None
    assert peer_fingerprint({}) is None


def test_a_client_asks_for_the_host_of_every_server_or_for_the_only_one() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    new = make_certificate("sums", bytes(32), key, datetime.now(UTC).date() + timedelta(days=1))
    assert asked_host(base64.b64decode(new)) == "server.fastlloyd.internal"
    assert asked_host(OWN) == "c0.fastlloyd.internal"  # of one host
    with pytest.raises(NetworkError, match="names no host"):
        asked_host(b"no certificate")
