"""Client's end of the network: it connects to the server, and stays connected until its run has
ended. It knows nothing of rounds.
"""

import asyncio
import contextlib
import logging
from dataclasses import replace
from functools import partial
from secrets import SystemRandom, token_bytes
from typing import TYPE_CHECKING, Final

from fastlloyd.errors import OTHER_PLAN, NetworkError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import ClientResult, Ended
from fastlloyd.federation.protocol.messages import Limits, decode, encode, printable
from fastlloyd.federation.store.events import LogPosition
from fastlloyd.federation.transport.grpc import frames, places, tls
from fastlloyd.federation.transport.grpc.endings import StopCode, stop_code_of
from fastlloyd.federation.transport.grpc.failures import SHOWN, explain
from fastlloyd.federation.transport.grpc.log import SparingLog
from fastlloyd.federation.transport.grpc.outbox import Meter, Outbox
from fastlloyd.federation.transport.grpc.turns import Turns
from fastlloyd.federation.transport.party import ClientParty, Outcome, Request

if TYPE_CHECKING:
    import grpc.aio

    Call = grpc.aio.StreamStreamCall[bytes, bytes]

_LOG = logging.getLogger(__name__)
# seconds before the second attempt to connect; each further attempt doubles them
_SHORTEST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 15.0
_LAST_FRAME_SECONDS: Final = 2.0  # seconds to send the last frames
_CHECK_SECONDS: Final = 15.0
_FINAL: Final = frozenset(
    {"PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}
)
"""Status codes after which another attempt is useless. gRPC may return any other code, even
INTERNAL, if a connection breaks.
"""


class GrpcClient:
    """Connection of one client to the server, for one run.

    n_awaited : number of clients that have not answered in this step, as the server last reported
        it, or 0.
    trouble : sentence that says why the client cannot reach the server now, or "".
    meter : bytes sent and received so far.

    Parameters
    ----------
    party : session of the client, which answers the server.
    plan : plan of the run.
    address : address of the server, "HOST:PORT".
    identity : certificate and key of this client.
    server_certificate : certificate (DER) of the server. The server must prove that it has the key.
    is_here : whether the server is on this machine, so no proxy is used.
    keepalive : times after which a silent connection is checked and dropped, or None for the
        default.
    """

    def __init__(
        self,
        party: ClientParty,
        plan: Plan,
        *,
        address: str,
        identity: tls.TlsIdentity,
        server_certificate: bytes,
        is_here: bool = False,
        keepalive: tls.Keepalive | None = None,
    ) -> None:
        self._party, self._plan, self._address, self._limits = party, plan, address, Limits.of(plan)
        self._identity, self._server_certificate = identity, server_certificate
        self._options = tls.channel_options(
            self._limits, server_certificate, keepalive or tls.Keepalive(), is_here=is_here
        )
        self._outbox, self._is_attached, self._was_attached = Outbox(), False, False
        self._process = token_bytes(frames.PROCESS_BYTES)
        self._ending: StopCode | None = None
        self.n_awaited = 0
        self.trouble = ""
        self._n_failures = 0
        self._log = SparingLog(_LOG)
        self.meter = Meter()

    async def run(self) -> ClientResult | Ended | None:
        """Take part until the run has ended for this client, and return the outcome. After `stop`,
        return None: the run can be continued later.

        If a connection breaks, the client connects again until the party's deadline. `Ended` then
        contains the last cause. If the server refuses this client or breaks the protocol, this call
        returns `Ended`, but the run has ended for the client only if the party says so. Errors of
        the party other than RemoteProtocolError pass through. The server is then not told that this
        client has left.
        """
        self._over = asyncio.Event()
        self._outcome: asyncio.Future[ClientResult | Ended] = (
            asyncio.get_running_loop().create_future()
        )
        self._turns = Turns(
            self._party,
            frame=lambda message: frames.encode_frame(
                frames.Post(self._party.position, encode(message))
            ),
            # without a connection a frame is dropped: `ClientParty.begin` sends it again later
            post=lambda _, frame: self._outbox.put(frame),
            finish=self._end,
            fail=self._fail,
        )
        connection = asyncio.create_task(self._stay_connected())
        connection.add_done_callback(lambda _: self._over.set())
        try:
            await self._turns.watch()
            await self._over.wait()
            await self._turns.close()
            self._outbox.close(*map(frames.encode_frame, self._last_frames()))
            await asyncio.wait({connection}, timeout=_LAST_FRAME_SECONDS)
        finally:
            await self._turns.close()
            connection.cancel()
            await asyncio.wait({connection})
            self._log.close()
        failure = None if connection.cancelled() else connection.exception()
        if self._outcome.done():
            # raises the party's error if it failed; the connection has then ended too
            return self._outcome.result()
        if failure is not None:
            raise failure
        return None

    def stop(self) -> None:
        """Finish the step in progress, send its messages, and end. Call this in the event loop, for
        example from a signal handler.
        """
        self._over.set()

    def _last_frames(self) -> list[frames.ClientFrame]:
        """Return the last frames of this client: Stop with the reason if this process ends early,
        and Leave unless the client may come back.
        """
        error = self._outcome.exception() if self._outcome.done() else None
        if error is not None:
            return [frames.Stop(stop_code_of(error))]
        if not self._outcome.done():
            return [frames.Stop(StopCode.STOPPED)]
        why = [] if self._ending is None else [frames.Stop(self._ending)]
        return [*why, frames.Leave(*self._party.farewell)]

    @property
    def _has_failed(self) -> bool:
        """Return whether the failure is the party's. The connection then still works, so the server
        can be told.
        """
        return self._outcome.done() and self._outcome.exception() is not None

    async def _stay_connected(self) -> None:
        while not self._over.is_set():
            self._outbox, self._is_attached = Outbox(), False
            try:
                trouble = await self._connect()
            except RemoteProtocolError as error:
                self._end(Ended(str(error)))
                return
            self._outbox.close()
            await self._pause(trouble)

    async def _pause(self, trouble: str) -> None:
        """Wait before the next attempt to connect.

        The wait grows with every failure in a row, and contains a random part, so clients do not
        come all at once.

        trouble : sentence about the reason of the failure.
        """
        if trouble != self.trouble and not self._over.is_set():
            self._log.warning(self._address, "%s; trying again", trouble)
        self.trouble = trouble
        longest = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2.0 ** min(self._n_failures, 10))
        self._n_failures += 1
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), SystemRandom().uniform(longest / 2, longest))

    async def _connect(self) -> str:
        """Keep one connection, from its first frame to its end. Return the reason why it ended."""
        grpc = tls.load_grpc()
        credentials = tls.channel_credentials(self._identity, self._server_certificate)
        # "dns:" is also right for a numeric address, and excludes gRPC's other kinds of names
        async with grpc.aio.secure_channel(
            f"dns:///{self._address}", credentials, options=self._options
        ) as channel:
            call = channel.stream_stream("/" + "/".join(tls.STREAM))()
            try:
                await self._converse(call)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return self._explain((await call.code()).name, await call.details())
        return f"the server at {self._address} ended the connection"

    def _explain(self, code: str, details: str) -> str:
        """Return the reason why a connection broke, if another attempt may help.

        Raises RemoteProtocolError if no attempt can help.
        """
        if code in _FINAL:
            raise RemoteProtocolError(
                f"the server at {self._address} refuses this client: {code},"
                f" {printable(details, SHOWN)}"
            )
        if self._is_attached:
            return f"the connection to {self._address} broke"
        return explain(
            details,
            address=self._address,
            planned=self._plan.server.address,
            own_certificate=self._identity.certificate,
            was_connected=self._was_attached,
        )

    async def _converse(self, call: "Call") -> None:
        positions: list[SignedPosition] = []
        await self._turns.take(lambda: self._party.position, positions.append)
        for position in positions:
            attach = frames.encode_frame(
                frames.Attach(
                    self._plan.digest, bytes.fromhex(self._plan.run_id), position, self._process
                )
            )
            self.meter.sent += len(attach)
            await call.write(attach)
        frame = await self._read(call)
        if frame is None:
            return
        if not isinstance(frame, frames.Attached):
            raise RemoteProtocolError(
                f"the server began with {type(frame).__name__}; expected Attached"
            )
        self._log.info(self._address, "connected to %s", self._address)
        self._is_attached, self._was_attached, self.trouble, self._n_failures = True, True, "", 0
        reader = asyncio.create_task(self._read_all(call, frame.log))
        writer = asyncio.create_task(self._outbox.write_all(call.write, self.meter))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if self._has_failed:
                await asyncio.wait({writer}, timeout=_LAST_FRAME_SECONDS)
                await call.done_writing()
                await self._drain(call)
            elif not reader.done() and writer.exception() is None:
                await call.done_writing()
                await reader
        finally:
            for task in (reader, writer):
                task.cancel()
            found = await asyncio.gather(reader, writer, return_exceptions=True)
        for error in found:
            if isinstance(error, Exception):
                raise error

    async def _drain(self, call: "Call") -> None:
        """Wait until the server has read the last frame and ends the stream."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_FRAME_SECONDS):
                while isinstance(await call.read(), bytes):
                    pass

    async def _read_all(self, call: "Call", remembered: LogPosition) -> None:
        def begin() -> list[Request]:
            self._party.attached(remembered)
            return self._party.begin()

        await self._turns.ask(begin)
        while (frame := await self._read(call)) is not None:
            if isinstance(frame, frames.Waiting):
                self.n_awaited = frame.n_clients
                continue
            if isinstance(frame, frames.Twice):
                self._log.warning(self._address, "%s", places.came_twice(frame.host))
                continue
            if not isinstance(frame, frames.Answer):
                raise RemoteProtocolError(
                    f"the server sent {type(frame).__name__} on a stream that is attached"
                )
            self.n_awaited = 0
            message = decode(frame.message, self._limits)
            try:
                await self._turns.ask(partial(self._party.receive, message))
            except RemoteProtocolError as error:
                # this error ended the run durably, and Leave tells the server
                if not self._outcome.done():  # otherwise the message was sent before the run ended
                    self._ending = StopCode.SERVER_REFUSED
                self._end(Ended(str(error)))

    async def _read(
        self, call: "Call"
    ) -> frames.Attached | frames.Answer | frames.Waiting | frames.Twice | None:
        """Return the next frame, or None once the server has ended the stream.

        Raises RemoteProtocolError if the server refuses this client.
        """
        data = await call.read()
        if not isinstance(data, bytes):
            return None
        self.meter.received += len(data)
        frame = frames.decode_server_frame(data, self._limits)
        if isinstance(frame, frames.Refused):
            raise RemoteProtocolError(f"the server refuses this client: {frame.reason}")
        return frame

    def _end(self, outcome: Outcome) -> None:
        if isinstance(outcome, Ended) and self.trouble:
            outcome = replace(outcome, reason=f"{outcome.reason}; {self.trouble}")
        if isinstance(outcome, ClientResult | Ended) and not self._outcome.done():
            self._outcome.set_result(outcome)
        self._over.set()

    def _fail(self, error: BaseException) -> None:
        if not self._outcome.done():
            self._outcome.set_exception(error)
        self._over.set()


async def check_connection(
    plan: Plan,
    *,
    address: str,
    identity: tls.TlsIdentity,
    server_certificate: bytes,
    is_here: bool = False,
) -> None:
    """Ask the server whether it serves this plan, over a connection like that of a run.

    plan : the plan.
    address : address of the server, "HOST:PORT".
    identity : certificate and key of this client.
    server_certificate : certificate (DER) of the server.
    is_here : whether the server is on this machine.

    Raises NetworkError if the server cannot be reached, or serves another plan.
    """
    grpc = tls.load_grpc()
    options = tls.channel_options(
        Limits.of(plan), server_certificate, tls.Keepalive(), is_here=is_here
    )
    credentials = tls.channel_credentials(identity, server_certificate)
    async with grpc.aio.secure_channel(
        f"dns:///{address}", credentials, options=options
    ) as channel:
        try:
            await channel.unary_unary("/" + "/".join(tls.HEALTH))(
                tls.health_request(plan.digest), timeout=_CHECK_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            why = explain(
                error.details() or "",
                address=address,
                planned=plan.server.address,
                own_certificate=identity.certificate,
            )
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise NetworkError(
                    f"the server at {address} serves another plan than the one with digest"
                    f" {plan.digest.hex()}",
                    code=OTHER_PLAN,
                ) from None
            raise NetworkError(why) from None
