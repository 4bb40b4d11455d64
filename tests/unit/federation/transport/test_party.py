"""What drives sessions over a wire blames nobody for an error of the wire."""

from collections import deque
from collections.abc import Callable

import pytest

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.protocol.messages import Broadcast, Message, Upload, encode
from fastlloyd.federation.transport.party import ClientDriver, Heard, Kind, serve
from federation import Federation, inboxes, make_federation, make_plan

FEDERATION = make_federation(make_plan(3, max_dropouts=1))


class FailingWire:
    """The server's end, its clients behind it; it cannot send a Broadcast to the first of them."""

    def __init__(self, federation: Federation) -> None:
        self._heard: deque[Heard] = deque()
        self.told: list[tuple[str, Kind, str]] = []
        self._drivers = {
            client.name: ClientDriver(client, self._sender(client.name))
            for client in federation.clients()
        }
        for driver in self._drivers.values():
            driver.begin()

    def send(self, to: str, message: Message) -> None:
        if isinstance(message, Broadcast) and to == "c0":
            raise RemoteProtocolError("c0 hung up")
        self._drivers[to].hear(encode(message))

    def tell(self, to: str, kind: Kind, reason: str = "") -> None:
        self.told.append((to, kind, reason))

    def receive(self, seconds: float | None = None) -> Heard | None:  # noqa: ARG002 - see `Wire`
        return self._heard.popleft() if self._heard else None

    def _sender(self, name: str) -> Callable[[str, Message], None]:
        return lambda _, message: self._heard.append(Heard(name, Kind.MESSAGE, encode(message)))


def test_an_error_of_the_servers_wire_leaves_serve_and_no_client_is_refused_for_it() -> None:
    wire = FailingWire(FEDERATION)
    with pytest.raises(RemoteProtocolError, match="c0 hung up"):
        serve(FEDERATION.server(), wire)
    assert wire.told == []


def test_an_error_of_a_clients_wire_leaves_its_driver_and_the_server_is_not_said_to_have_broken_the_protocol() -> (
    None
):
    sent: list[Message] = []

    def send(_to: str, message: Message) -> None:
        if isinstance(message, Upload):
            raise RemoteProtocolError("the wire is cut")
        sent.append(message)

    session = FEDERATION.client("c1")
    driver = ClientDriver(session, send)
    driver.begin()
    deal, key_box, all_ready, *_ = inboxes(FEDERATION)["c1"]
    driver.hear(encode(deal))
    driver.hear(encode(key_box))
    with pytest.raises(RemoteProtocolError, match="wire is cut"):
        driver.hear(encode(all_ready))
    assert driver.outcome is None
    assert session.outcome is None
    assert len(sent) == 2  # Hello, Ready
    (again,) = session.resend()
    assert isinstance(getattr(again, "message", None), Upload)
