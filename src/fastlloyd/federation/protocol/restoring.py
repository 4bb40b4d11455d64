"""What sessions restored from their records have in common: which messages can be records, and what is said of others."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.messages import Limits, Message, decode


def decode_records(recorded: Sequence[bytes], plan: Plan) -> list[Message]:
    """Recorded messages in order; LocalProtocolError at the first that this version could not have sent in a run of `plan`."""
    limits, messages = Limits.of(plan), []
    for position, data in enumerate(recorded, 1):
        try:
            messages.append(decode(data, limits))
        except RemoteProtocolError as error:
            raise LocalProtocolError(
                f"record {position} of this run cannot be read: {error}. Nothing was sent; the run cannot be taken up again "
                "with this version, a new one can"
            ) from error
    return messages


@contextmanager
def fits(position: int, message: Message) -> Iterator[None]:
    """Say which record it was that a session could not go on from; `position` counts from 1."""
    try:
        yield
    except (LocalProtocolError, RemoteProtocolError) as error:
        raise LocalProtocolError(
            f"record {position} of this run, {type(message).__name__}, does not fit this plan, this party and the records "
            f"before it: {error}. Nothing was sent; the run cannot be taken up again, a new one can"
        ) from error
