"""Reasons of gRPC for a failed connection, as sentences for a person who can do something about
them.
"""

import datetime as dt
from typing import Final

from fastlloyd.federation.protocol.messages import printable
from fastlloyd.federation.transport.grpc import proxies

SHOWN: Final = 300  # largest number of characters of an unknown reason
_PROXY_SAID: Final = "HTTP proxy returned "
_REFUSED_MARKS: Final = (
    "Socket closed",
    "Connection reset",
    "Broken pipe",
    "SSLV3_ALERT",
    "TLSV1_ALERT",
    "GOAWAY",
)
_HUNG_UP_MARKS: Final = (
    "Handshake read failed",
    "remote host: getsockopt(SO_ERROR): Connection reset",
)

_SILENT_MARKS: Final = (
    "imed out",
    "imeout",
    "No route to host",
    "unreachable",
    "eadline Exceeded",
    "DEADLINE_EXCEEDED",
    "Endpoint closing",  # a handshake or a proxy took longer than gRPC waits
)

_REFUSED: Final = (
    "the server at {address} refused this certificate: it is not in the roster of the server's plan"
    " (or has expired, or the server's clock is wrong)"
)
_LOST: Final = (
    "the connection to {address} was lost, and a new one was closed before it was"
    " complete: the server is busy or restarting, or the network is unreliable"
)
# gRPC's words, and the sentence about the server's certificate
_CERTIFICATE_OF_SERVER: Final = (
    (
        ("certificate has expired",),
        (
            "the certificate of the server at {address} has expired by this machine's clock; ask"
            " for a new plan"
        ),
    ),
    (
        ("certificate is not yet valid",),
        (
            "the certificate of the server at {address} is not yet valid by this machine's clock;"
            " check the clock"
        ),
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED", "Hostname Verification"),
        (
            "the server at {address} does not have the plan's certificate: it is another"
            " server, or one of an older plan, or a device in between intercepts TLS"
        ),
    ),
)
_AFTER_A_CONNECTION: Final = (
    (
        ("Connection refused",),
        "nobody listens at {address} any more: the server was stopped, or its run has ended",
    ),
    ((*_REFUSED_MARKS, *_HUNG_UP_MARKS, "andshake failed"), _LOST),
)
_CLOSED_BY_PROXY: Final = (
    "the connection to {address} through the proxy in {setting} was closed: the"
    " proxy may not allow CONNECT to this port, or the server refused this"
    " certificate; ask the owner of the proxy, and ask whether the server has the"
    " same plan"
)
_THROUGH_PROXY: Final = (
    (
        ("Expected 'H'",),
        (
            "the address in {setting} is not an HTTP proxy, so {address} cannot be"
            " reached; set {setting} to the proxy, or no_proxy to the server's host"
        ),
    ),
    (
        ("Connection refused",),
        (
            "no proxy listens at the address in {setting}, so {address} cannot be"
            " reached; check {setting}"
        ),
    ),
    (
        ("resolv", "lookup"),
        (
            "the host name in {setting} cannot be resolved, so {address} cannot be"
            " reached; check {setting} and the DNS"
        ),
    ),
    (
        _SILENT_MARKS,
        (
            "no answer from {address} through the proxy in {setting}: the proxy does not"
            " answer, or a firewall behind the proxy drops the connection, or the machine"
            " is off; ask the owner of the proxy"
        ),
    ),
)
_NO_CONNECTION: Final = (
    (
        _HUNG_UP_MARKS,
        (
            "{address} closed the connection before TLS was set up: the server has no"
            " free connection or is too busy, or another program listens there; check the"
            " port{proxy}"
        ),
    ),
    (
        ("andshake failed",),
        (
            "the program that listens at {address} does not speak TLS 1.3 as a fastlloyd"
            " server does; check the port{proxy}"
        ),
    ),
    (
        ("Connection refused",),
        (
            "nobody listens at {address}: the server has not been started, or its run has ended,"
            " or {source} is wrong{proxy}"
        ),
    ),
    (
        ("resolv", "lookup"),
        "the host name in {address} cannot be resolved; check {source} and the DNS{proxy}",
    ),
    (_REFUSED_MARKS, _REFUSED),
    (
        _SILENT_MARKS,
        "no answer from {address}: a firewall may be in between, or the machine is off{proxy}",
    ),
    (("",), "no connection to {address}: {details}{proxy}"),
)


def explain(
    details: str, *, address: str, planned: str, own_certificate: bytes, was_connected: bool = False
) -> str:
    """Return one sentence that explains why there is no connection to the server.

    details : reason in gRPC's words.
    address : address that the client used, "HOST:PORT".
    planned : address of the server in the plan, which may differ.
    own_certificate : certificate (DER) of the client.
    was_connected : whether this process was connected to the server before, so port and certificate
        are right.
    """
    setting = proxies.in_between(address)
    if _PROXY_SAID in details:
        said = printable(details.split(_PROXY_SAID, 1)[1], 80)
        return f"the HTTP proxy in between does not connect to {address} ({said}){proxies.hint()}"
    closed = ((*_REFUSED_MARKS, *_HUNG_UP_MARKS), _CLOSED_BY_PROXY)
    rows = (
        *_CERTIFICATE_OF_SERVER,
        *(_THROUGH_PROXY if setting else ()),
        *(_AFTER_A_CONNECTION if was_connected else ()),
        *((closed,) if setting else ()),
        *_NO_CONNECTION,
    )
    sentence: str = next(
        sentence for marks, sentence in rows if any(mark in details for mark in marks)
    )
    if sentence in (_REFUSED, _LOST, _CLOSED_BY_PROXY):
        # In TLS 1.3, a refused client is not told the reason: the server only ends the connection.
        from fastlloyd.federation.identity import x509

        end = x509.load(own_certificate).not_valid_after_utc
        if end < dt.datetime.now(dt.UTC):
            what = (
                f"the certificate expired on {end:%Y-%m-%d}; make a new certificate, and a new plan"
            )
            return f"the server at {address} refused this certificate: {what}"
    given = f"the address given as --server (the plan has {planned or 'none'})"
    source = "the address in the plan" if address == planned else given
    return sentence.format(
        address=address,
        source=source,
        setting=setting,
        proxy=proxies.hint(),
        details=printable(details, SHOWN),
    )
