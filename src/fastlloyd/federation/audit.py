"""Audit file: the chain of events of a site's store, signed by the site's identity.

The file has one JSON object a line: the owner, each event in the order of the store, each approval,
and the end with the signature. Two chains of hashes run through it. The last field of each line is
a hash of the line and of all lines before, so the first changed line is known. Each event has the
head of the store's own chain (`store/events.py`), to which the site's signed positions at servers
refer. The signature covers the hash of the line before it, and so the whole file.

A line has exactly the bytes that `_line` writes. The readable fields are derived from the encoded
event, so they cannot contradict it.

The file proves what the owner of the key states. The owner can make a file of events that never
happened, from an empty store. Only positions that other parties have (`Positions`) can contradict
such a file.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fastlloyd.base.randomness import length_prefixed
from fastlloyd.errors import CHANGED_FILE, WRONG_FILE, RemoteProtocolError, StateError
from fastlloyd.federation.positions import KnownStore
from fastlloyd.federation.secagg.keys import Identity, verify
from fastlloyd.federation.store.contents import Contents
from fastlloyd.federation.store.events import (
    SALT_BYTES,
    ClientJoined,
    ClientLeft,
    Event,
    ExchangeCharged,
    LimitSet,
    MessageRecorded,
    PeerForgotten,
    PeerSigned,
    PersonRunReserved,
    Role,
    RunEnded,
    RunReserved,
    UnitLimitSet,
    decode,
    encode,
    first_head,
    next_head,
)
from fastlloyd.federation.store.history import History

FORMAT: Final = 1
MAX_BYTES: Final = 1 << 28
SENT_BY_CLIENTS: Final = frozenset(
    {"Hello", "SealedKeys", "Ready", "BadKeys", "Upload", "Proposal", "Confirmation"}
)
"""Kinds of messages that clients send. Servers send all others."""

_LABEL: Final = b"fastlloyd/v1/audit"
BEGINNING, _END = b'{"fastlloyd_audit":', b'{"end":'
_HASH: Final = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_HASH_BYTES: Final = len(b',"hash":""}') + 64
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"

Fields = Mapping[str, Any]


class Audit(NamedTuple):
    """Content of a verified audit file.

    role : role of the store's owner.
    identity : public signing key of the owner, 32 bytes.
    made : time at which the file was made, by the owner's clock.
    events : fields of each event, as in the file.
    approvals : approvals, as their owner noted them.
    heads : head of the store after each number of events, from 0.
    """

    role: Role
    identity: bytes
    made: str
    events: tuple[Fields, ...]
    approvals: tuple[Fields, ...]
    heads: tuple[bytes, ...]

    def check_position(self, known: KnownStore) -> None:
        """Raise StateError unless the first events of the file lead to a position that the owner
        signed earlier.
        """
        n = len(self.events)
        if known.length > n or self.heads[known.length].hex() != known.head:
            raise StateError(
                f"the owner signed another history: its {known.length} events are not the first"
                f" {known.length} of the {n} events in this file; the file hides or replaces"
                " events",
                code=CHANGED_FILE,
            )


def audit_file(
    contents: Contents,
    events: Sequence[Event],
    approvals: Sequence[Fields],
    identity: Identity,
    made: int,
) -> bytes:
    """Return the content of an audit file.

    contents, events : verified content of the store.
    approvals : approvals that are stored next to the store.
    identity : private key of the store's owner.
    made : current time, in seconds since 1970, UTC.

    Raises StateError for a ledger, which has no identity, and for the store of another identity.
    """
    if contents.role is Role.HOLDER:
        raise StateError(
            "a ledger has no identity that could sign; pass the store of a client or a server"
        )
    if contents.identity != identity.public:
        raise StateError("the store belongs to another identity; pass the one beside it")
    head, lines, before = contents.first_head, list[bytes](), _LABEL
    stated = [_owner(contents.role, contents.identity, contents.salt, made)]
    for number, (event, at) in enumerate(zip(events, contents.seconds, strict=True), 1):
        head = next_head(head, at, encode(event))
        stated.append(_event(number, at, event, head, contents.role))
    stated += [{"approval": dict(approval)} for approval in approvals]
    for fields in stated:
        line, before = _line(fields, before)
        lines.append(line)
    line, _ = _line(_end(len(events), len(approvals), identity.sign(_statement(before))), before)
    return b"\n".join([*lines, line]) + b"\n"


def read_audit(content: bytes, expected: bytes, whose: str) -> Audit:
    """Check an audit file completely, and return its content.

    expected : public signing key of the party that should have made it, 32 bytes.
    whose : name of that party, for error messages.

    Raises StateError for a faulty line, or another signer. The message names the first such line,
    or the signer's key.
    """
    if not content.startswith(BEGINNING):
        raise StateError(
            "this is not an audit file, or its first bytes were changed; expected a file that"
            " `fastlloyd audit STORE --export FILE` made",
            code=WRONG_FILE,
        )
    *texts, (end, signed) = _unchanged(content)
    role = _check_owner(texts[0][0], expected, whose)
    history, events, approvals = History(role), list[Fields](), list[Fields]()
    first = json.loads(texts[0][0])
    heads = [first_head(role, expected, bytes.fromhex(first["salt"]))]
    for number, (text, _) in enumerate(texts[1:], 2):
        fields = _parsed(text, number)
        if isinstance(approval := fields.get("approval"), dict):
            if not all(isinstance(each, str) for each in approval.values()):
                raise _fault(number, text, "a value is not a text")
            _check_form(text, {"approval": approval}, number)
            approvals.append(approval)
        elif approvals:
            raise _fault(number, text, "an event comes after an approval")
        else:
            heads.append(_follow(text, fields, heads[-1], history, number))
            events.append(fields)
    number = len(texts) + 1
    signature = _parsed(end, number).get("signature")
    if not isinstance(signature, str) or not re.fullmatch("[0-9a-f]{128}", signature):
        raise _fault(number, end, "the signature is missing")
    _check_form(end, _end(len(events), len(approvals), bytes.fromhex(signature)), number)
    try:
        verify(expected, bytes.fromhex(signature), _statement(signed))
    except RemoteProtocolError:
        raise StateError(
            f"the signature is not that of {whose}, whose key is {expected.hex()}: someone else"
            " signed the file, or changed it with all its hashes",
            code=CHANGED_FILE,
        ) from None
    return Audit(role, expected, first["made"], tuple(events), tuple(approvals), tuple(heads))


def _unchanged(content: bytes) -> list[tuple[bytes, bytes]]:
    """Return the text of each line without its hash, and the hash of the line before.

    Raises StateError for a file without an end, or for the first line whose hash does not fit. The
    message names the line.
    """
    *lines, rest = content.split(b"\n")
    texts, before = list[tuple[bytes, bytes]](), _LABEL
    for number, line in enumerate([*lines, *([rest] if rest else [])], 1):
        if texts and texts[-1][0].startswith(_END):
            raise _fault(
                number, line, ("there are lines after the signature, which must be the last line")
            )
        found, text = _HASH.fullmatch(line[-_HASH_BYTES:]), line[:-_HASH_BYTES] + b"}"
        after = _hashed(text, before)
        if found is None or after.hex().encode() != found[1]:
            raise _fault(number, line, "the line was changed, or is not in its place")
        texts.append((text, before))
        before = after
    if rest or len(texts) < 2 or not texts[-1][0].startswith(_END):
        raise StateError(
            f"the file is cut off after line {len(texts)}: its end with the signature is missing",
            code=CHANGED_FILE,
        )
    return texts


def _check_owner(text: bytes, expected: bytes, whose: str) -> Role:
    """Return the role in the first line. Raises StateError unless the line names the expected
    key.
    """
    fields = _parsed(text, 1)
    if fields.get("fastlloyd_audit") != FORMAT:
        raise StateError(
            f"line 1 names format {fields.get('fastlloyd_audit')!r:.20}, and this fastlloyd reads"
            f" {FORMAT}; use the version that made the file",
            code=CHANGED_FILE,
        )
    try:
        role, salt = Role(fields["role"]), bytes.fromhex(fields["salt"])
        made = datetime.strptime(fields["made"], _TIME).replace(tzinfo=UTC)
        identity = bytes.fromhex(fields["identity"])
        _check_form(text, _owner(role, identity, salt, int(made.timestamp())), 1)
    except (KeyError, TypeError, ValueError):
        raise _fault(1, text, "the owner cannot be read") from None
    if role is Role.HOLDER or len(salt) != SALT_BYTES:
        raise _fault(1, text, "the owner is neither a client nor a server")
    if identity != expected:
        raise StateError(
            f"line 1 names the signing key {identity.hex()}, but {whose} has the key"
            f" {expected.hex()}: the file is of another identity",
            code=CHANGED_FILE,
        )
    return role


def _follow(text: bytes, fields: Fields, head: bytes, history: History, number: int) -> bytes:
    """Return the head after the event of a line, and add the event to the history.

    Raises StateError if the event does not follow from the lines before, or if the readable fields
    contradict the encoded event.
    """
    try:
        event = decode(bytes.fromhex(fields["encoded"]))
        seconds = int(datetime.strptime(fields["time"], _TIME).replace(tzinfo=UTC).timestamp())
        head = next_head(head, seconds, encode(event))
        _check_form(text, _event(number - 1, seconds, event, head, history.role), number)
        history.add(event)
    except (StateError, KeyError, TypeError, ValueError, OverflowError) as error:
        why = str(error) if isinstance(error, StateError) else "the event cannot be read"
        raise _fault(number, text, why) from None
    return head


def _check_form(text: bytes, fields: Fields, number: int) -> None:
    """Raise StateError unless the text of a line is exactly the encoding of these fields."""
    if text != _text(fields):
        raise _fault(
            number,
            text,
            (
                "the line does not fit the event that it describes, its place"
                " in the file, or the owner"
            ),
        )


def _parsed(text: bytes, number: int) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise _fault(number, text, "the line is not a JSON object")
    return fields


def _fault(number: int, text: bytes, what: str) -> StateError:
    """Return the error that names a line, and the event in it.

    what : clause that says what is wrong with the line.
    """
    inside = f"event {number - 1}"
    for beginning, name in ((b'{"approval"', "an approval"), (_END, "the end")):
        inside = name if text.startswith(beginning) else inside
    inside = "the owner" if number == 1 else inside
    return StateError(f"line {number} ({inside}): {what}", code=CHANGED_FILE)


def _line(fields: Fields, before: bytes) -> tuple[bytes, bytes]:
    """Return a line of the file without its newline, and its hash, 32 bytes.

    before : hash of the line before, or the label at the beginning.
    """
    text = _text(fields)
    after = _hashed(text, before)
    return text[:-1] + f',"hash":"{after.hex()}"}}'.encode(), after


def _text(fields: Fields) -> bytes:
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode()


def _hashed(text: bytes, before: bytes) -> bytes:
    return hashlib.sha256(length_prefixed(_LABEL, before, text)).digest()


def _statement(before: bytes) -> bytes:
    """Return the bytes to sign: a label, and the hash of the line before the end."""
    return length_prefixed(_LABEL + b"/signed", before)


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_TIME)


def _owner(role: Role, identity: bytes, salt: bytes, made: int) -> Fields:
    return {
        "fastlloyd_audit": FORMAT,
        "role": role.value,
        "identity": identity.hex(),
        "salt": salt.hex(),
        "made": _time(made),
    }


def _end(n_events: int, n_approvals: int, signature: bytes) -> Fields:
    return {"end": {"events": n_events, "approvals": n_approvals}, "signature": signature.hex()}


def _event(number: int, seconds: int, event: Event, head: bytes, role: Role) -> Fields:
    """Return the fields of an event: readable fields, the encoded event, and the head of the chain
    after it.
    """
    return {
        "number": number,
        "time": _time(seconds),
        "event": type(event).__name__,
        **_facts(event, role),
        "encoded": encode(event).hex(),
        "head": head.hex(),
    }


def _facts(event: Event, role: Role) -> Fields:
    """Return the fields that show an event to people, such as the run, the data set and the
    guarantee.
    """
    of_run = {"run": event.run_id.hex()} if hasattr(event, "run_id") else {}
    match event:
        case RunReserved() | PersonRunReserved():
            more = {
                "plan": event.plan_digest.hex(),
                "client": event.client,
                "data_set": event.dataset,
                "epsilon": event.cost.epsilon,
                "delta": event.cost.delta,
                "rounds": len(event.cost.costs),
            }
        case MessageRecorded():
            is_sent = (event.kind in SENT_BY_CLIENTS) is (role is Role.CLIENT)
            more = {
                "message": event.kind,
                "direction": "sent" if is_sent else "received",
                "sha256": event.digest.hex(),
            }
        case ExchangeCharged():
            more = {"round": event.number}
        case RunEnded():
            more = {"outcome": event.outcome.value, "reason": event.reason}
        case LimitSet() | UnitLimitSet():
            is_none = math.isinf(event.epsilon)
            more = {
                "data_set": event.dataset,
                "epsilon": None if is_none else event.epsilon,
                "delta": event.delta,
            }
        case ClientJoined() | ClientLeft():
            more = {"client": event.client}
        case PeerSigned():
            more = {"client": event.client, "events": event.position.length}
        case PeerForgotten():
            more = {"identity": event.name}
        case _:
            more = {}
    return {**of_run, **more}
