"""What gRPC says when no connection comes about, as sentences for the person who must do something about it."""

import datetime as dt
import os
from typing import Final

from fastlloyd.federation.protocol.messages import printable
from fastlloyd.federation.transport.grpc.tls import end_of_validity

_CERTIFICATE_REFUSED: Final = ("Socket closed", "Connection reset", "Broken pipe", "SSLV3_ALERT", "TLSV1_ALERT", "GOAWAY")
_HUNG_UP: Final = ("Handshake read failed", "remote host: getsockopt(SO_ERROR): Connection reset")
SHOWN: Final = 300  # characters of what gRPC says that has no sentence
_NO_ANSWER: Final = ("imed out", "imeout", "No route to host", "unreachable", "DEADLINE_EXCEEDED")


def explain(details: str, *, address: str, planned: str, own_certificate: bytes, was_connected: bool = False) -> str:
    """One sentence for what gRPC gave as the reason that there is no connection to the server at `address`.

    planned : the address in the plan, which may be another. was_connected : this process has talked to the server there before,
    so neither port nor certificate need be doubted.
    """
    if "HTTP proxy returned" in details:
        return f"the HTTP proxy in between does not connect to {address} ({_after(details, 'HTTP proxy returned ')}){_proxy()}"
    if doubt := _certificate_of_server(details, address):
        return doubt
    if was_connected and (lost := _lost(details, address, own_certificate)):
        return lost
    if any(mark in details for mark in _HUNG_UP):
        return (
            f"what answers at {address} hung up before a TLS connection stood: the server has as many connections as it takes, "
            f"or is too busy, or it is no fastlloyd server; is the port right?{_proxy()}"
        )
    if "andshake failed" in details:
        return f"what answers at {address} does not speak TLS 1.3 as a fastlloyd server does; is the port right?{_proxy()}"
    if "Connection refused" in details:
        return (
            f"nobody listens at {address}; the server is not started, or the run is over there, or "
            f"{_source(address, planned)} is wrong{_proxy()}"
        )
    if "resolv" in details or "lookup" in details:
        return f"there is no host of the name in {address}, or no DNS to ask; look at {_source(address, planned)}{_proxy()}"
    if any(mark in details for mark in _CERTIFICATE_REFUSED):
        return _certificate_refused(address, own_certificate)
    if any(mark in details for mark in _NO_ANSWER):
        return f"no answer from {address}: a firewall may be in between, or the machine is off{_proxy()}"
    return f"no connection to {address}: {printable(details, SHOWN)}"


def _certificate_of_server(details: str, address: str) -> str:
    """What is wrong with the certificate that a server showed; nothing where none was looked at."""
    if "certificate has expired" in details:
        return f"the certificate of the server at {address} has expired by this machine's clock; ask for a new plan"
    if "certificate is not yet valid" in details:
        return f"the certificate of the server at {address} is not yet valid by this machine's clock; check the clock"
    if "CERTIFICATE_VERIFY_FAILED" in details or "Hostname Verification" in details:
        return (
            f"what answers at {address} does not have the plan's certificate: it is another server, or one of an older plan, "
            "or something in between opens TLS"
        )
    return ""


def _lost(details: str, address: str, own_certificate: bytes) -> str:
    """What keeps a client from a server that it was connected to; nothing where that makes no difference."""
    if "Connection refused" in details:
        return f"nobody listens at {address} any more: the server was stopped, or the run is over there"
    if not any(mark in details for mark in (*_CERTIFICATE_REFUSED, *_HUNG_UP, "andshake failed")):
        return ""
    if end_of_validity(own_certificate) < dt.datetime.now(dt.UTC):
        return _certificate_refused(address, own_certificate)
    return (
        f"the connection to {address} was lost, and what answers there hung up before another one stood: the server is busy, "
        "or being started again, or the network is bad"
    )


def _certificate_refused(address: str, own_certificate: bytes) -> str:
    # TLS 1.3: a client learns that its certificate is refused only by the end of the connection, without a reason
    end = end_of_validity(own_certificate)
    if end < dt.datetime.now(dt.UTC):
        return f"the server at {address} refused this certificate: it expired on {end:%Y-%m-%d}; make a new one, and a new plan"
    return (
        f"the server at {address} refused this certificate: it is not in the roster of the server's plan "
        "(or has expired, or the server's clock is wrong)"
    )


def _source(address: str, planned: str) -> str:
    """Where the address came from."""
    return (
        "the address in the plan" if address == planned else f"the address given as --server (the plan has {planned or 'none'})"
    )


def _after(details: str, mark: str) -> str:
    return printable(details.split(mark, 1)[1], 80)


def _proxy() -> str:
    """Which setting of the environment sends gRPC to a proxy. The setting's name only: its value may hold a password."""
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        if os.environ.get(name):
            return f"; the environment sets {name}, so a proxy is asked unless no_proxy names the host"
    return ""
