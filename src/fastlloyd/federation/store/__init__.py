"""Store of one party: a hash-chained table of events, and messages and secrets that are wiped when
their run ends.
"""

from fastlloyd.federation.store.durable import Store, read
from fastlloyd.federation.store.events import LogPosition, Role
from fastlloyd.federation.store.files import store_path
from fastlloyd.federation.store.history import History, Run

__all__ = ["History", "LogPosition", "Role", "Run", "Store", "read", "store_path"]
