"""Server's end of the network: one stream for each client, and a party that answers the clients. It
knows nothing of rounds or keys.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from fastlloyd.errors import NetworkError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import ServerResult
from fastlloyd.federation.protocol.messages import Limits, Message, decode, encode, printable
from fastlloyd.federation.store.events import LogPosition
from fastlloyd.federation.transport.grpc import endings, frames, listening, tls
from fastlloyd.federation.transport.grpc.log import SparingLog
from fastlloyd.federation.transport.grpc.outbox import Meter, Outbox
from fastlloyd.federation.transport.grpc.places import Place
from fastlloyd.federation.transport.grpc.streams import Streams, refuse
from fastlloyd.federation.transport.grpc.turns import LOOK, PAUSE, Arrivals, Pace, Presence, Turns
from fastlloyd.federation.transport.party import Outcome, Request, ServerParty

if TYPE_CHECKING:
    import grpc.aio

    Context = grpc.aio.ServicerContext[bytes, bytes]

_LOG = logging.getLogger(__name__)
_FIRST_FRAME_SECONDS: Final = 10.0
# Largest number of streams of one client. An honest client has fewer: its old streams end soon, by
# themselves or by keepalive.
_MAX_STREAMS: Final = 4
_LAST_FRAME_SECONDS: Final = 2.0  # seconds to send the waiting frames of a stream that ends
# seconds between two checks that clients know the number of awaited clients
_TELL_SECONDS: Final = 10.0
GRACE: Final = 20.0  # seconds, longer than a client's pause between two attempts to connect


class GrpcServer:
    """Server of one run. A client is identified by its certificate, and must prove that it has the
    key. A client acts only in its own name.

    port : port on which the server listens.
    meter : bytes sent and received so far.
    stays : largest number of seconds that the server stays after the end of the run, or None before
        the end.

    Parameters
    ----------
    party : session of the server, which answers the clients.
    plan : plan of the run. Every client must first name its digest and run id.
    address : address to listen on, "HOST:PORT". With port 0 the system chooses a free port, and
        `port` is its number.
    identity : certificate and key of the server.
    certificates : certificate (DER) of each client, by name.
    keepalive : times after which a silent connection is checked and dropped, or None for the
        default.
    linger : seconds after the end of the run in which the server still answers clients that are
        behind. Clients that have finished tell the server.
    grace : seconds without a stream after which the party learns that a client is away. If a run
        ended without a result, the server also stops after this time without any connection. A
        client that returns later gives up when the timeout of its step is over.
    max_connections : limit above which new connections are closed at once, or None for the default
        for these clients.
    """

    def __init__(
        self,
        party: ServerParty,
        plan: Plan,
        *,
        address: str,
        identity: tls.TlsIdentity,
        certificates: Mapping[str, bytes],
        keepalive: tls.Keepalive | None = None,
        linger: float = 60.0,
        grace: float = GRACE,
        max_connections: int | None = None,
    ) -> None:
        self.port = 0
        self._party, self._plan, self._address = party, plan, address
        self._linger, self._grace = linger, grace
        self._identity, self._trusted = identity, [*certificates.values(), identity.certificate]
        self._names = {
            tls.fingerprint(certificate): name for name, certificate in certificates.items()
        }
        self._limits = Limits.of(plan)
        max_connections = max_connections or tls.wanted_connections(plan.n_clients)
        self._options = tls.server_options(
            self._limits, max_connections, keepalive or tls.Keepalive()
        )
        self._arrivals = Arrivals(max_connections)
        # streams that are not read and cannot be ended count too
        self._presence = Presence(
            grace, lambda name: self._turns.tell(partial(self._party.away, name))
        )
        # messages that wait for their turn: name and store position of each client
        self._waiting = deque[tuple[str, SignedPosition]]()
        # last encoded message of each kind, and its frame
        self._framed: dict[type, tuple[Message, bytes]] = {}
        # twice the number of messages of an honest client whose connection does not break
        burst = 4 * (plan.mechanism.n_rounds + 2)
        self._paces = {name: Pace(burst) for name in plan.names}
        self._log = SparingLog(_LOG)
        self._streams = Streams(party.gone, self._log, self._note_move)
        self.meter = Meter()
        self._is_stopped = self._is_cut_short = False
        self.stays: float | None = None

    @property
    def connected(self) -> frozenset[str]:
        """Names of the clients that are connected now."""
        return frozenset(self._streams.outboxes)

    @property
    def not_told(self) -> tuple[str, ...]:
        """Names of the clients that do not know of the end of the run, so the server stays for
        them. Empty while the run goes on.
        """
        return self._remaining if self.stays is not None else ()

    @property
    def _remaining(self) -> tuple[str, ...]:
        return tuple(name for name in self._plan.names if name not in self._streams.left)

    async def start(self) -> None:
        """Listen on the address. Raises NetworkError if it cannot be used."""
        grpc = tls.load_grpc()
        self._over = asyncio.Event()
        self._moved = asyncio.Event()  # set when a client connects or disconnects
        self._outcome: asyncio.Future[ServerResult] = asyncio.get_running_loop().create_future()
        self._turns = Turns(
            self._party,
            frame=self._frame,
            post=self._streams.post,
            finish=self._finish,
            fail=self._fail,
            rest=self._party.draw_ahead,
        )
        self._grpc = grpc.aio.server(options=self._options)
        stream = grpc.stream_stream_rpc_method_handler(self._serve_stream)
        health = grpc.unary_unary_rpc_method_handler(self._serve_health)
        for (service, method), handler in ((tls.STREAM, stream), (tls.HEALTH, health)):
            self._grpc.add_generic_rpc_handlers(
                [grpc.method_handlers_generic_handler(service, {method: handler})]
            )
        credentials = tls.server_credentials(self._identity, self._trusted, self._arrivals.came)
        try:
            await asyncio.to_thread(listening.check_free, self._address)
            self.port = self._grpc.add_secure_port(self._address, credentials)
        except RuntimeError:
            await self._grpc.stop(None)
            why = await asyncio.to_thread(listening.why_not, self._address)
            raise NetworkError(f"cannot listen at {self._address}: {why}") from None
        self._presence.watch(self._plan.names)
        self._working = [
            asyncio.create_task(work) for work in (self._count_unheard(), self._tell_waiting())
        ]
        await self._grpc.start()
        facts = {"listening": self._address}
        _LOG.info(
            "listening at %s for run %s", self._address, self._plan.run_id, extra={"facts": facts}
        )
        await self._turns.watch()

    async def wait(self) -> ServerResult | None:
        """Return the outcome of the run once all clients have left, or `linger` or `grace` is over.

        After `stop`, return None if the run goes on, or if a client may still ask how the run
        ended.
        """
        try:
            await self._over.wait()
            await self._stay()
        finally:
            await self._close()
        if not self._outcome.done():
            return None
        if self._is_stopped and self._remaining and self._outcome.exception() is None:
            return None  # a client that was away may still ask for the end
        return self._outcome.result()

    async def serve(self) -> ServerResult | None:
        """Listen, and return the outcome of the run as `wait` does."""
        await self.start()
        return await self.wait()

    def stop(self) -> None:
        """Finish the current step, send its messages, and stop serving. A run that has not ended
        can be resumed later.

        Call this in the event loop, for example from a signal handler.
        """
        self._is_stopped = True
        self._end_waiting()

    async def _stay(self) -> None:
        """Wait until all clients have left, or until `linger` is over. If the run has no result,
        wait at most until no client was connected for `grace` seconds.

        Seconds in which this process was stopped do not count, because no client could ask. There
        is one wait with one timeout: Python 3.11 loses the outer of two nested timeouts that end at
        once.
        """
        without_result = (
            self._outcome.done()
            and not self._outcome.exception()
            and self._outcome.result().reason is not None
        )
        clock, stayed, alone = asyncio.get_running_loop().time, 0.0, 0.0
        while self._remaining and not self._is_cut_short:
            left = min([self._linger - stayed, *([self._grace - alone] if without_result else [])])
            if left <= 0:
                return
            begun, self.stays = clock(), left
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK, left)):
                    await self._moved.wait()
            passed = min(clock() - begun, LOOK + PAUSE)
            stayed, alone = (
                stayed + passed,
                0.0 if self._streams.outboxes or self._moved.is_set() else alone + passed,
            )
            self._moved.clear()

    def _note_move(self) -> None:
        self._moved.set()

    def _end_waiting(self) -> None:
        self._is_cut_short = True
        self._over.set()
        self._moved.set()

    async def _close(self) -> None:
        self._presence.close()
        for task in self._working:
            task.cancel()
        await self._turns.close()
        self._streams.drop_all()
        await self._grpc.stop(_LAST_FRAME_SECONDS)
        self._log.close()

    async def _serve_stream(self, _requests: object, context: "Context") -> None:
        """Serve one stream, from its first frame to its last."""
        name = self._names.get(tls.peer_fingerprint(context.auth_context()) or b"")
        if name is None:
            await context.abort(
                tls.load_grpc().StatusCode.PERMISSION_DENIED,
                "this certificate does not belong to a client of the plan",
            )
        self._arrivals.heard(context.peer())
        if self._presence.n_streams[name] >= _MAX_STREAMS:
            self._log.warning(
                name,
                "client %s opens another stream while %d of its streams are unread",
                name,
                _MAX_STREAMS,
            )
            await context.abort(
                tls.load_grpc().StatusCode.UNAVAILABLE, "too many streams of this client are unread"
            )
        self._presence.came(name)
        outbox = Outbox()
        reader = asyncio.create_task(self._read(name, outbox, context))
        writer = asyncio.create_task(outbox.write_all(context.write, self.meter))
        closed = asyncio.create_task(outbox.closed.wait())
        try:
            await asyncio.wait([reader, closed], return_when=asyncio.FIRST_COMPLETED)
            self._streams.drop(name, outbox)
            # if the stream is closed because the client does not read, stop reading from it too
            reader.cancel()
            # Wait without a limit, because a stream cannot be ended during a write. If the client
            # does not read, keepalive ends the stream.
            await asyncio.wait([writer])
        finally:
            self._presence.went(name)
            self._streams.drop(name, outbox)
            for task in (reader, writer, closed):
                task.cancel()
            await asyncio.gather(reader, writer, closed, return_exceptions=True)

    async def _count_unheard(self) -> None:
        """Log the number of connections from outside the plan, at intervals."""
        while True:
            await asyncio.sleep(tls.SECONDS_TO_BE_HEARD)
            if more := self._arrivals.look():
                line = (
                    "%d more connections, %d in all, did not identify themselves as a client of"
                    " the plan: their certificate was unknown or missing"
                )
                self._log.warning("connections", line, more, self._arrivals.n_unheard)

    async def _tell_waiting(self) -> None:
        """Send the number of awaited clients to all connected clients, at intervals. No names are
        sent.
        """
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            self._streams.tell_waiting(len(self._party.awaited))

    async def _read(self, name: str, outbox: Outbox, context: "Context") -> None:
        """Handle the frames of a client one by one. The next frame is read when the one before is
        answered.
        """
        place, why = None, ""
        try:
            attach = await self._first_frame(context)
            place = Place.of(attach.process, context.peer())
            await self._attach(name, outbox, attach.log, place)
            while data := await context.read():
                self.meter.received += len(data)
                frame = frames.decode_client_frame(data, self._limits)
                match frame:
                    case frames.Post(log, data):
                        message = decode(data, self._limits)
                        self._streams.register(name, outbox, place)
                        if pause := self._paces[name].pause(asyncio.get_running_loop().time()):
                            await asyncio.sleep(pause)
                        self._waiting.append((name, log))
                        await self._turns.ask(partial(self._receive, name, log, message))
                    case frames.Stop(code):
                        why = endings.sentence(code)
                        if code == endings.StopCode.OLD_STORE:
                            self._turns.tell(partial(self._party.disowned, name))
                        line = "client %s has stopped: %s"
                        self._log.warning(
                            name, line, name, why + self._streams.other_place(name, code, place)
                        )
                    case frames.Leave(hello, signature):
                        leave = partial(self._party.leave, name, hello, signature)
                        await self._leave(name, outbox, leave, why or endings.GAVE_UP)
                        return
                    case frames.Attach():
                        refuse(outbox, "a stream is attached once; open another")
                        return
        except RemoteProtocolError as error:
            reason = self._streams.refusal(name, error, place)
            self._log.warning(name, "client %s is refused: %s", name, printable(reason))
            refuse(outbox, reason)

    async def _leave(
        self, name: str, outbox: Outbox, leave: Callable[[], list[Request]], why: str
    ) -> None:
        """Let the party check and note the Leave of client `name`, in one turn, so no Hello comes
        between the two.

        outbox : outbox of the stream on which the Leave came.
        leave : calls the party.
        why : reason for the log.
        """
        was_over = self._outcome.done()
        await self._turns.ask(leave)
        if not was_over and name not in self._streams.left:
            line = "client %s has left the run for good: %s"
            self._log.warning(name, line, name, why)
        if self._streams.outboxes.get(name, outbox) is outbox:
            self._streams.left.add(name)
        self._moved.set()

    def _receive(self, name: str, log: SignedPosition, message: Message) -> list[Request]:
        """Pass one message to the party, in the party's thread. First announce to the party all
        other messages that are waiting.
        """
        while self._waiting:
            self._party.announce(*self._waiting.popleft())
        return self._party.receive(name, log, message)

    async def _first_frame(self, context: "Context") -> frames.Attach:
        try:
            data = await asyncio.wait_for(context.read(), _FIRST_FRAME_SECONDS)
        except TimeoutError:
            raise RemoteProtocolError(
                f"no frame arrived on a new stream for {_FIRST_FRAME_SECONDS:g} seconds"
            ) from None
        self.meter.received += len(data or b"")
        return _checked_attach(frames.decode_client_frame(data or b"", self._limits), self._plan)

    async def _attach(self, name: str, outbox: Outbox, log: SignedPosition, place: Place) -> None:
        def answer(known: LogPosition) -> None:
            outbox.put(frames.encode_frame(frames.Attached(known)))
            self._streams.attach(name, outbox, place)

        await self._turns.take(partial(self._party.attach, name, log), answer)

    def _frame(self, message: Message) -> bytes:
        """Return the frame of a message. It is called in the party's thread. A message that goes to
        many clients is encoded once.
        """
        last, frame = self._framed.get(type(message), (None, b""))
        if last is not message:
            frame = frames.encode_frame(frames.Answer(encode(message)))
            self._framed[type(message)] = message, frame
        return frame

    def _finish(self, outcome: Outcome) -> None:
        if isinstance(outcome, ServerResult) and not self._outcome.done():
            self._outcome.set_result(outcome)
            self._over.set()

    def _fail(self, error: BaseException) -> None:
        if not self._outcome.done():
            self._outcome.set_exception(error)
        self._end_waiting()

    async def _serve_health(self, request: bytes, context: "Context") -> bytes:
        """Answer that the server is serving. Only clients of the plan and owners of the server's
        certificate get an answer.

        A request may name a plan. If the server serves another plan, the answer is NOT_FOUND.
        """
        peer = tls.peer_fingerprint(context.auth_context()) or b""
        if peer not in {*self._names, tls.fingerprint(self._identity.certificate)}:
            await context.abort(
                tls.load_grpc().StatusCode.PERMISSION_DENIED, "this certificate is not in the plan"
            )
        self._arrivals.heard(context.peer())
        if request not in (b"", tls.health_request(self._plan.digest)):
            await context.abort(
                tls.load_grpc().StatusCode.NOT_FOUND, "this server serves another plan"
            )
        return tls.SERVING


def _checked_attach(frame: frames.ClientFrame, plan: Plan) -> frames.Attach:
    """Return the first frame of a stream. Raises RemoteProtocolError unless it is an Attach for
    this plan and run.
    """
    if not isinstance(frame, frames.Attach):
        raise RemoteProtocolError(f"a stream began with {type(frame).__name__}; expected Attach")
    if frame.plan_digest != plan.digest:
        raise RemoteProtocolError(
            f"your plan has digest {frame.plan_digest.hex()}; this server serves the plan"
            f" with digest {plan.digest.hex()}"
        )
    if frame.run_id.hex() != plan.run_id:
        raise RemoteProtocolError(
            f"your run id is {frame.run_id.hex()}; this server serves run {plan.run_id}"
        )
    return frame
