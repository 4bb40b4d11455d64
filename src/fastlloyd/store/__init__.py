"""What one party keeps on disk: a hash-chained table of events, and messages and secrets that are wiped with their run."""

from fastlloyd.store.durable import Store, read
from fastlloyd.store.events import LogPosition, Role
from fastlloyd.store.files import store_path
from fastlloyd.store.history import History, Run

__all__ = ["History", "LogPosition", "Role", "Run", "Store", "read", "store_path"]
