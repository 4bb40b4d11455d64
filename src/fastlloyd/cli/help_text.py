"""Help of a command as plain text: usage, purpose, examples, and options in three groups.

The groups are options that a run needs, usual options, and options for experts. On a narrow screen,
the description of an option is below its name.
"""

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import typer

NARROW: Final = 70
"""Smallest width in columns that has room for help beside the names of options."""

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "fit": (
        "fastlloyd fit visits.csv -k 3 --bounds age=18:90,dose=0:5 --n-records 5000",
        (
            "fastlloyd fit visits.csv -k 3 --bounds bounds.toml --n-records 5000 --epsilon 0.5"
            " --dataset visits --out result"
        ),
    ),
    "simulate": (
        "fastlloyd simulate visits.csv --clients 3 -k 3 --bounds bounds.toml --n-records 5000",
        (
            "fastlloyd simulate visits.csv --clients 5 -k 3 --bounds bounds.toml --n-records 5000"
            " --max-dropouts 1 --masks group --drop client-2@2"
        ),
    ),
    "advise": (
        "fastlloyd advise --records 5000 --clusters 3 --bounds age=0:110 --wanted-error age=1",
        "fastlloyd advise --records 5000 --features 4 --clusters 3 --clients 5 --epsilons 0.5,1,2",
    ),
    "plan new": (
        (
            "fastlloyd plan new --features age,dose -k 3 --bounds age=18:90,dose=0:5"
            " --member a.public.toml:2000 --member b.public.toml:2000 --member c.public.toml:2000"
            " --server sums.public.toml --address sums.example.org:8443"
        ),
        (
            "fastlloyd plan new --simulation --features age,dose -k 3 --bounds age=18:90,dose=0:5"
            " --client a:2000 --client b:2000 --client c:2000"
        ),
    ),
    "join": (
        (
            'fastlloyd join plan.toml --digest "DIGEST" --key a.identity.toml --data visits.csv'
            " --dataset visits --dry-run"
        ),
        (
            'fastlloyd join plan.toml --digest "DIGEST" --key a.identity.toml --data visits.csv'
            " --dataset visits --out result"
        ),
    ),
    "bounds estimate": (
        "fastlloyd bounds estimate visits.csv --range 0:1000 --n-records 5000",
        (
            "fastlloyd bounds estimate visits.csv --range age=0:150,dose=0:1000 --n-records 5000"
            " --epsilon 0.2 --dataset visits --out bounds.toml"
        ),
    ),
}
"""Two command lines for each command with many options, by the name of the command."""

NEEDED: Final[Mapping[str, frozenset[str]]] = {
    "fit": frozenset({"--bounds", "--n-records"}),
    "simulate": frozenset({"--bounds", "--n-records"}),
    "bounds estimate": frozenset({"--range", "--n-records"}),
    "plan new": frozenset({"--member", "--server", "--address"}),
    "join": frozenset({"--out"}),
}
"""Options that a run needs, but whose absence the command notices only later. The key is the name
of the command.
"""

USUAL: Final = frozenset(
    {
        *("--columns", "--recipe", "--missing", "--outside", "--epsilon", "--epsilons"),
        *("--unit-column", "--unit", "--dataset", "--purpose", "--new-dataset", "--clients"),
        *("--max-dropouts", "--host", "--client", "--simulation", "--study", "--dry-run"),
        *("--bounds", "--n-clusters", "--out", "--no-out", "--force", "--json", "--help"),
    }
)
"""Options of most runs, except those that a command needs."""

ABLATION: Final = "Ablation"
"""Last part of the help: the options of the paper's ablation."""

_LAST: Final = "The paper's ablation"
_FEW: Final = 12  # options, which are not parted into usual ones and others
_WIDEST, _NAMES, _INDENT = 100, 30, 2
_UNBROKEN: Final = "\0"  # a space at which a line of an example is not broken
_PARTS = ("Clustering", "Privacy", "Federation", "Ledger", "Network", "Host", "Output", "Study")


def help_text(command: Any, context: Any) -> str:
    """Return the help of a click command. It ends with a newline."""
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    sections = [_usage(command, context, width), _purpose(command, width)]
    name = context.command_path.partition(" ")[2]
    if name in EXAMPLES:
        sections.append(_heading("Examples", [_example(line, width) for line in EXAMPLES[name]]))
    sections += [
        _heading(
            title, [_entry(option_names(option), description(option), width) for option in options]
        )
        for title, options in option_groups(name, command.get_params(context))
    ]
    if hasattr(command, "commands"):
        sections.append(_heading("Commands", _commands(command, context, width)))
    return "\n\n".join(filter(None, sections)) + "\n"


def _usage(command: Any, context: Any, width: int) -> str:
    arguments = [each.metavar for each in command.params if each.param_type_name == "argument"]
    words = ["COMMAND ..."] if hasattr(command, "commands") else arguments
    return textwrap.fill(
        " ".join(("Usage:", context.command_path, "[OPTIONS]", *words)),
        width,
        subsequent_indent=" " * 7,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _purpose(command: Any, width: int) -> str:
    paragraphs = (command.help or "").partition("\f")[0].split("\n\n")
    return "\n\n".join(_wrapped(paragraph, width, _INDENT) for paragraph in paragraphs)


def _heading(title: str, lines: Iterable[str]) -> str:
    return "\n".join([typer.style(f"{title}:", bold=True), *lines])


def _example(line: str, width: int) -> str:
    """Return a command line as an example that can be copied. Long lines are wrapped before an
    option, with a backslash at the end of each line.

    line : command line.
    width : largest width of a line in characters.
    """
    whole = re.sub(" (?!--)", _UNBROKEN, line)
    broken = _wrapped(whole, width - 2, _INDENT, 2 * _INDENT).replace("\n", " \\\n")
    return broken.replace(_UNBROKEN, " ")


def option_groups(name: str, options: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the title and the options of each group of the help. Empty groups are left out."""
    shown = [option for option in options if not getattr(option, "hidden", False)]
    parts: dict[str, list[Any]] = {"Needed": [], "Usual": []}
    parts |= {f"Expert, {part.lower()}": [] for part in _PARTS}
    for option in shown:
        parts.setdefault(_part(name, option, is_long=len(shown) > _FEW), []).append(option)
    last = parts.pop(_LAST, [])
    yield from ((title, found) for title, found in parts.items() if found)
    if last:
        yield _LAST, last


def _part(name: str, option: Any, *, is_long: bool) -> str:
    known = {*option.opts, *option.secondary_opts}
    if option.required or known & NEEDED.get(name, frozenset()):
        return "Needed"
    panel = getattr(option, "rich_help_panel", None)
    if panel == ABLATION:
        return _LAST
    if not is_long:
        return "Options"
    return "Usual" if known & USUAL else f"Expert, {panel.lower()}" if panel else "Expert"


def option_names(option: Any) -> str:
    """Return the names of an option with its value, or the name of an argument."""
    metavar = (option.metavar or "").replace(" ", "").replace("|", " | ")
    if option.param_type_name == "argument":
        return metavar
    names = sorted(option.opts, key=lambda name: name.startswith("--"))
    names += option.secondary_opts
    return " ".join(filter(None, (", ".join(names), metavar)))


def description(option: Any) -> str:
    """Return the description of an option. Its default is added if the description does not state
    it.
    """
    words = " ".join((option.help or "").split())
    default = option.default
    is_said = "Default:" in words or isinstance(default, bool) or default in (None, "", (), [])
    if option.required or is_said or callable(default) or not option.show_default:
        return words
    return f"{words} Default: {default}."


def _commands(group: Any, context: Any, width: int) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield _entry(name, " ".join((command.help or "").partition("\n\n")[0].split()), width)


def _entry(name: str, words: str, width: int) -> str:
    """Return a name with its description to the right, or below if there is no room."""
    column = _NAMES if width >= NARROW else 3 * _INDENT
    names = _wrapped(name, width if width < NARROW else max(NARROW, width), _INDENT, 2 * _INDENT)
    if not words:
        return names
    beside = _wrapped(words, width, column)
    fits = width >= NARROW and "\n" not in names and len(names) + 2 <= column
    return names.ljust(column) + beside.lstrip() if fits else f"{names}\n{beside}"


def _wrapped(text: str, width: int, indent: int, further: int | None = None) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if further is None else further),
        break_long_words=False,
        break_on_hyphens=False,
    )
