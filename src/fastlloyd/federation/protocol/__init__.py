"""The two sessions of a federated run, free of input and output: messages in, actions out."""

from fastlloyd.federation.protocol.actions import SERVER, Action, ClientResult, Ended, Finish, Keep, Record, Send, ServerResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Message, decode, encode, max_message_bytes
from fastlloyd.federation.protocol.server import ServerSession

__all__ = [
    "SERVER",
    "Action",
    "ClientResult",
    "ClientSession",
    "Ended",
    "Finish",
    "Keep",
    "Message",
    "Record",
    "Send",
    "ServerResult",
    "ServerSession",
    "decode",
    "encode",
    "max_message_bytes",
]
