"""Help in a fraction of the time: typer's imports a reader of Markdown and a printer of tracebacks, and ours needs neither."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_UNUSED = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}


class _Later(type):
    """A class that is there by name: whoever makes one, or asks it for something, loads the class that it stands for."""

    home: str

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return cls._loaded()(*arguments, **named)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._loaded(), name)

    def _loaded(cls) -> Any:
        return getattr(importlib.import_module(cls.home), cls.__name__)


def load_help() -> None:
    """Import what typer prints its help with, once, without the modules that this help does not use."""
    if "typer.rich_utils" not in sys.modules:
        with _by_name_only():
            importlib.import_module("typer.rich_utils")


@contextmanager
def _by_name_only() -> Iterator[None]:
    """Let imports find the unused classes by name; what is loaded already stays as it is."""
    stand_ins = {home: _stand_in(home, name) for home, name in _UNUSED.items() if home not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for home in stand_ins:
            del sys.modules[home]


def _stand_in(home: str, name: str) -> ModuleType:
    module = ModuleType(home)
    setattr(module, name, _Later(name, (), {"home": home}))
    return module
