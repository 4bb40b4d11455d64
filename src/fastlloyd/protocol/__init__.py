"""The two sessions of a federated run, free of input and output: messages in, actions out."""

from fastlloyd.protocol.actions import SERVER, Action, ClientResult, Ended, Finish, Keep, Record, Send, ServerResult
from fastlloyd.protocol.client import ClientSession
from fastlloyd.protocol.messages import Message, decode, encode, max_message_bytes
from fastlloyd.protocol.server import ServerSession

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
