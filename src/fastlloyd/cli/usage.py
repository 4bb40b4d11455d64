"""Parse command lines strictly. Dataclasses of options become parameters of a command.

A wrong option is refused in one sentence, which names the option and the values that it takes.
"""

import dataclasses
import functools
import inspect
import re
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from fastlloyd.base import numerals
from fastlloyd.base.names import nearest
from fastlloyd.base.places import whose
from fastlloyd.cli.help_text import help_text
from fastlloyd.errors import FastLloydError, Problems

UsageError: type[Exception] = typer.BadParameter.__mro__[1]

MISUSED = 2
"""Exit code of a command line that names no command."""

_CLOSED = re.compile(r"path '(.+)' is not readable", re.IGNORECASE | re.DOTALL)  # typer's words
_LISTS = {
    "--columns": "a,b,c",
    "--features": "a,b,c",
    "--bounds": "a=LO:HI,b=LO:HI",
    "--epsilons": "0.5,1,2",
}
_NAMES_ELSEWHERE = {  # scikit-learn's, and those of other programs
    "--random-state": "--public-seed",
    "--seed": "--public-seed",
    "--max-iter": "--iterations",
    "--n-iter": "--iterations",
    "--sep": "--separator",
    "--delimiter": "--separator",
    "--no-header": "--header",
    "--skiprows": "--skip-lines",
    "--na-values": "--missing-words",
}


class Group(TyperGroup):
    """Group of commands under one name."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(help_text(self, ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options in front of the command. Without any argument, show the help."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(MISUSED)
        with _saying_what_is_wrong(self.params):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name and the command for the first of `args`, and the other arguments."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            meant = nearest(name, self.list_commands(ctx))
            raise UsageError(
                f"there is no command {name!r:.80}"
                + (f"; did you mean {meant}?" if meant else "; --help lists the commands")
            )
        return super().resolve_command(ctx, args)


BEFORE = "fastlloyd.before"
"""Key in `Context.meta` of a function that is called before the command."""


class Command(TyperCommand):
    """Command that takes every option once, reads numbers strictly, and reports all faults of its
    options together.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(help_text(self, ctx))

    def invoke(self, ctx: Any) -> Any:
        """Call the command. If a function must run before the command, call the function first."""
        if (before := ctx.meta.get(BEFORE)) is not None:
            before()
        return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. Raises `UsageError` for one fault, or `Problems` for several."""
        with _saying_what_is_wrong(self.params):
            given, left, order = self.make_parser(ctx).parse_args(args=list(args))
            _refuse_repeated(order)
            eager = [option for option in order if getattr(option, "is_eager", False)]
            asks_for_help = any(not option.expose_value for option in eager)
            if not (asks_for_help or ctx.resilient_parsing):  # the latter completes a line
                missing = [] if eager else _missing(given, self.params)  # a recipe may have them
                _refuse([*missing, *_bad_numbers(given, order, self.callback)])
                if sentence := _left_over(left, self.params):
                    raise UsageError(sentence)
            return super().parse_args(ctx, args)


@contextmanager
def _saying_what_is_wrong(options: Sequence[Any]) -> Iterator[None]:
    """Context manager that replaces click's error about an option by a `UsageError` in our
    words.
    """
    try:
        yield
    except UsageError as error:
        if (
            sentence := _unknown_option(error, options)
            or _wrong_use(error, options)
            or _lacking(error)
            or _closed(error)
        ):
            raise UsageError(sentence) from None
        raise


def _refuse(sentences: Sequence[str]) -> None:
    """Raise Problems with these sentences about faulty options, if there are any."""
    if sentences:
        raise Problems(list(map(FastLloydError, sentences)))


def _refuse_repeated(order: Iterable[Any]) -> None:
    """Raise UsageError if an option that may occur once is repeated. Otherwise the last value would
    silently win.
    """
    counts = Counter(
        option for option in order if option.param_type_name == "option" and not option.multiple
    )
    for option, n in counts.items():
        if n > 1 and (option.secondary_opts or not option.is_flag):
            name = _name(option)
            raise UsageError(
                f"{name} is given {n} times; give all values in one list, as {name} {_LISTS[name]}"
                if name in _LISTS
                else f"{name} is given {n} times; give the option once"
            )


def _unknown_option(error: Exception, options: Iterable[Any]) -> str:
    """Return a sentence about an option that does not exist, or "" if the error has
    another cause.
    """
    if not hasattr(error, "possibilities"):
        return ""
    # as every error with possibilities has
    typed: str = error.option_name  # type: ignore[attr-defined]
    known = {
        name.lstrip("-"): name
        for option in options
        for name in (*option.opts, *option.secondary_opts)
    }
    meant = _NAMES_ELSEWHERE.get(typed)
    if meant not in known.values():
        meant = known.get(nearest(typed.lstrip("-"), known, cutoff=0.7) or "")
    return f"there is no option {typed}" + (
        f"; did you mean {meant}?" if meant else "; --help lists the options"
    )


def _wrong_use(error: Exception, options: Iterable[Any]) -> str:
    """Return a sentence about an option that lacks its value, or has a value that it does not take.

    Returns "" if the error has another cause.
    """
    typed = getattr(error, "option_name", None)
    for option in options:
        if typed in (*option.opts, *option.secondary_opts):
            if getattr(option, "is_flag", False):
                return f"{typed} takes no value; leave the value out"
            return f"{typed} needs a value: {typed} {option.metavar}"
    return ""


def _lacking(error: Exception) -> str:
    """Return a sentence about what neither the command line nor a recipe has, or "" for another
    error.
    """
    is_missing = type(error).__name__ == "MissingParameter"
    return next(_missing({}, [error.param]), "") if is_missing else ""  # type: ignore[attr-defined]


def _closed(error: Exception) -> str:
    """Return a sentence about a file that this user must not read, or "" for another error."""
    found = _CLOSED.search(str(error))
    if found is None:
        return ""
    path = Path(found[1])
    return f"{path} cannot be read (Permission denied){whose(path) or '; correct the path'}"


def _missing(given: Mapping[str, Any], params: Iterable[Any]) -> Iterator[str]:
    """Yield a sentence for each required option or argument that is missing."""
    for needed in params:
        if not needed.required or given.get(needed.name) not in (None, (), []):
            continue
        name = needed.metavar if needed.param_type_name == "argument" else _name(needed)
        what = needed.help.partition(". ")[0].removesuffix(".")
        yield f"{name} is missing ({what[:1].lower()}{what[1:]}); --help says more"


def _bad_numbers(given: Mapping[str, Any], order: Iterable[Any], command: Any) -> Iterator[str]:
    """Yield a sentence for each option whose text is not a number of the kind that it takes."""
    parameters = inspect.signature(command).parameters
    for option in dict.fromkeys(order):
        kind, info = _annotation(parameters[option.name].annotation)
        if kind is None:
            continue
        texts = given[option.name]
        for text in [texts] if isinstance(texts, str) else texts:
            if not _is_number(text, kind, info):
                expected = numerals.expected_whole if kind is int else numerals.expected_real
                yield f"{_name(option)} is {text!r:.80}; expected {expected(info.min, info.max)}"


def _annotation(annotation: Any) -> tuple[type[int] | type[float] | None, Any]:
    """Return the kind of number that a parameter takes (or None), and its
    `typer.Option` (or None).
    """
    if typing.get_origin(annotation) is not Annotated:
        return None, None
    kind, info = typing.get_args(annotation)[:2]
    kinds = {kind, *typing.get_args(kind)}
    return (int if int in kinds else float if float in kinds else None), info


def _is_number(text: str, kind: type[int] | type[float], info: Any) -> bool:
    """Return whether the text is a number of this kind within the range of the option. The word inf
    is a number if the option accepts it.
    """
    if text == "inf" and text in (info.metavar or "").split("|"):
        return True
    try:
        number = numerals.whole(text) if kind is int else numerals.real(text)
    except ValueError:
        return False
    return (info.min is None or number >= info.min) and (info.max is None or number <= info.max)


def _left_over(left: list[str], params: Iterable[Any]) -> str:
    """Return a sentence that names a surplus argument, or "" if there is none.

    A surplus argument may come from a pattern that the shell expanded.
    """
    if not left:
        return ""
    names = [each.metavar for each in params if each.param_type_name == "argument"]
    several = (
        "; for several files name their folder, or put the pattern in quotes: 'visits/*.csv'"
        if "DATA" in names
        else ""
    )
    return (
        f"{left[0]!r:.80} is one argument too many; expected"
        f" {' '.join(names) or 'options only'}{several}"
    )


def _name(option: Any) -> str:
    return next((name for name in option.opts if name.startswith("--")), str(option.opts[0]))


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with each dataclass parameter replaced by its fields.

    typer reads the signature of a command. Each field, `Annotated[type, typer.Option(...)]`,
    becomes a keyword parameter of the new signature.
    """
    signature = inspect.signature(command, eval_str=True)
    flat: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in signature.parameters.values():
        if isinstance(kind := parameter.annotation, type) and dataclasses.is_dataclass(kind):
            groups[parameter.name] = kind
            flat += _options(kind)
        else:
            flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def from_options(**given: object) -> None:
        for name, kind in groups.items():
            given[name] = kind(
                **{field.name: given.pop(field.name) for field in dataclasses.fields(kind)}
            )
        command(**given)

    # inspect looks there
    from_options.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    from_options.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return from_options


def _options(kind: type) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=(
                inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
            ),
        )
        for field in dataclasses.fields(kind)
    ]
