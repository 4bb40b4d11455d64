"""Settings of gRPC for this project: TLS 1.3, pinned certificates on both sides, and limits that
follow from the plan.
"""

import hashlib
import os
import ssl
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastlloyd.base import extras
from fastlloyd.errors import NetworkError
from fastlloyd.federation.protocol.messages import Limits
from fastlloyd.federation.transport.grpc.frames import max_frame_bytes

STREAM: Final = ("fastlloyd.Run", "Stream")
# https://github.com/grpc/grpc/blob/master/doc/health-checking.md
HEALTH: Final = "grpc.health.v1.Health", "Check"
SERVING: Final = b"\x08\x01"  # HealthCheckResponse(status=SERVING)


def health_request(plan_digest: bytes) -> bytes:
    """Return a HealthCheckRequest that asks a server whether it serves this plan. The service in it
    is the plan's digest, as 64 hex digits.
    """
    return b"\x0a\x40" + plan_digest.hex().encode()


_MAX_METADATA_BYTES: Final = 8192
# bytes that HTTP/2 lets a sender send ahead, before it has measured the line
_FIRST_WINDOW: Final = 65_535
_HANDSHAKE_SECONDS: Final = 5
_IDLE_SECONDS: Final = 10  # a connection without a stream is closed
# within this time, a client of the plan that connects has sent its first message
SECONDS_TO_BE_HEARD: Final = 2.0 * _HANDSHAKE_SECONDS
# More connections than clients need. An attacker must open as many to keep clients out.
_SPARE_CONNECTIONS: Final = 1000

# gRPC has no option for the lowest version of TLS, but one for the cipher suites of TLS 1.2. It
# does not affect TLS 1.3. The suite here needs a pre-shared key, so no handshake of TLS 1.2
# succeeds.
_CIPHER_SUITES: Final = "GRPC_SSL_CIPHER_SUITES"
_NO_TLS_1_2: Final = "ECDHE-PSK-AES128-CBC-SHA"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsIdentity:
    """Certificate and key of a party, for TLS.

    certificate : the certificate, DER.
    private_key : its private key, PEM of PKCS #8, not encrypted.
    """

    certificate: bytes
    private_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepalive:
    """Times after which a silent connection is checked and dropped.

    interval : seconds of silence after which the peer is asked for a sign of life.
    timeout : seconds after that question until the connection is dropped.
    """

    interval: float = 5.0
    timeout: float = 5.0

    def options(self) -> list[tuple[str, int]]:
        """Return gRPC's channel arguments for these times. Client and server use the same
        arguments.
        """
        interval, timeout = round(self.interval * 1000), round(self.timeout * 1000)
        return [
            ("grpc.keepalive_time_ms", interval),
            ("grpc.keepalive_timeout_ms", timeout),
            # without this option, a stopped process is noticed only after a minute
            (
                "grpc.http2.ping_timeout_ms",
                timeout,
            ),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", min(interval, 1000) // 2),
            ("grpc.http2.max_ping_strikes", 0),
        ]


def load_grpc() -> Any:
    """Return the module `grpc`, imported so that TLS 1.2 is refused.

    gRPC reads the setting for this only once, when it is imported. The server also checks the TLS
    version on each stream.

    Raises NetworkError if gRPC is not installed, or if other code imported it before.
    """
    if sys.modules.get("grpc") is not None and os.environ.get(_CIPHER_SUITES) != _NO_TLS_1_2:
        raise NetworkError(
            f"gRPC was imported before TLS 1.2 could be refused; set {_CIPHER_SUITES}={_NO_TLS_1_2}"
            " in the environment before Python starts"
        )
    os.environ[_CIPHER_SUITES] = _NO_TLS_1_2
    # this package itself reports errors, in sentences
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # gRPC's fork handlers restart its threads in a child process. They abort if the child closes
    # their files before it runs a program (https://github.com/grpc/grpc/issues/43055). No child of
    # this process uses its connections.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        import grpc
        import grpc.aio
    except Exception as error:  # noqa: BLE001 - a package may fail in any way
        raise NetworkError(
            f"runs over a network need gRPC, which {extras.why_not(error, 'network')}"
        ) from None
    return grpc


def server_credentials(
    identity: TlsIdentity, trusted: Iterable[bytes], came: Callable[[], None] = lambda: None
) -> Any:
    """Return TLS credentials of a server. They admit only the owners of the trusted certificates,
    whichever authority issued them.

    The credentials are for one server, because gRPC accepts them only once.

    identity : certificate and key of the server.
    trusted : certificates (DER).
    came : function that is called when a connection comes, before its handshake, in a thread of
        gRPC.
    """
    module = load_grpc()
    keys = module.ssl_server_certificate_configuration(
        [(identity.private_key, as_pem(identity.certificate))],
        root_certificates=b"".join(map(as_pem, trusted)),
    )
    # Before each handshake gRPC asks for other keys, and never gets any. The question is used
    # because gRPC gives no other sign of a new connection.
    return module.dynamic_ssl_server_credentials(keys, came, require_client_authentication=True)


def channel_credentials(identity: TlsIdentity, server_certificate: bytes) -> Any:
    """Return TLS credentials of a client. They connect only to the owner of one certificate.

    identity : certificate and key of the client.
    server_certificate : certificate of the server, DER.
    """
    own = as_pem(identity.certificate)
    return load_grpc().ssl_channel_credentials(
        as_pem(server_certificate), identity.private_key, own
    )


def needed_connections(n_clients: int) -> int:
    """Return the smallest number of connections that a server needs.

    It is two for each client, because a client may connect again before its old connection is found
    broken.
    """
    return 2 * n_clients


def wanted_connections(n_clients: int) -> int:
    """Return the number of connections that a server accepts, if the system allows it."""
    return 2 * needed_connections(n_clients) + _SPARE_CONNECTIONS


def server_options(
    limits: Limits, max_connections: int, keepalive: Keepalive
) -> list[tuple[str, int]]:
    """Return the channel arguments of the server. They limit what a peer can make it store, and for
    how long.

    limits : sizes of the plan's messages.
    max_connections : largest number of connections at a time.
    keepalive : times after which a silent connection is checked and dropped.
    """
    return [
        *_sizes(limits),
        *keepalive.options(),
        # a second server on this port is an error; otherwise it would get half of the clients
        (
            "grpc.so_reuseport",
            0,
        ),
        # for each connection: the run, and a health check
        (
            "grpc.max_concurrent_streams",
            2,
        ),
        ("grpc.max_allowed_incoming_connections", max_connections),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_SECONDS * 1000),
        ("grpc.max_connection_idle_ms", _IDLE_SECONDS * 1000),
    ]


def channel_options(
    limits: Limits, server_certificate: bytes, keepalive: Keepalive, *, is_here: bool = False
) -> list[tuple[str, int | str]]:
    """Return the channel arguments of a client. gRPC must not reconnect, because the client does so
    itself.

    limits : sizes of the plan's messages.
    server_certificate : certificate of the server, DER.
    keepalive : times after which a silent connection is checked and dropped.
    is_here : whether the server is on this machine, so no proxy is used.
    """
    return [
        *_sizes(limits),
        *keepalive.options(),
        ("grpc.ssl_target_name_override", asked_host(server_certificate)),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.enable_http_proxy", int(not is_here)),
    ]


def asked_host(certificate: bytes) -> str:
    """Return the host that a client asks for if the server has this certificate (DER).

    All new certificates of servers have the same host. Older ones have only their own host, which
    shows the server's name on the network.

    Raises NetworkError if the certificate names no host.
    """
    from fastlloyd.federation.identity import x509

    try:
        hosts = x509.hosts(x509.load(certificate))
        return x509.SERVER_HOST if x509.SERVER_HOST in hosts else hosts[0]
    except (ValueError, IndexError):
        raise NetworkError(
            "the server's certificate in the plan names no host; make a new identity for the"
            " server, and then a new plan"
        ) from None


def fingerprint(certificate: bytes) -> bytes:
    """Return the SHA-256 of a certificate (DER), 32 bytes."""
    return hashlib.sha256(certificate).digest()


def peer_fingerprint(auth_context: Mapping[str, Iterable[bytes]]) -> bytes | None:
    """Return the SHA-256 of a peer's certificate, 32 bytes. Return None unless the peer proved over
    TLS 1.3 that it has the key.

    auth_context : gRPC's data about the connection.
    """
    certificates = list(auth_context.get("x509_pem_cert", ()))
    if len(certificates) != 1 or list(auth_context.get("ssl_tls_version", ())) != [b"TLSv1.3"]:
        return None
    return fingerprint(ssl.PEM_cert_to_DER_cert(certificates[0].decode("ascii")))


def as_pem(certificate: bytes) -> bytes:
    """Return a certificate (DER) as PEM, for gRPC."""
    return ssl.DER_cert_to_PEM_cert(certificate).encode()


def _sizes(limits: Limits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", max_frame_bytes(limits)),
        ("grpc.max_send_message_length", max_frame_bytes(limits)),
        # Measuring the line costs a ping and its answer for most messages. It is useless if all
        # messages fit into the first window.
        ("grpc.http2.bdp_probe", int(max_frame_bytes(limits) > _FIRST_WINDOW)),
        ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
    ]
