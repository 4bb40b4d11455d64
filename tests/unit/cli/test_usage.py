"""Numbers on the command line: every option of every command reads them alike."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
import typer

from fastlloyd.base.names import fraction
from fastlloyd.cli.app import COMMANDS, LAB, subcommand
from fastlloyd.cli.settings import given_clients
from fastlloyd.errors import DataError, FastLloydError, PlanError, Problems
from fastlloyd.federation.simulation import parse_drop
from fastlloyd.records.bounds import parse_bounds

NO_WHOLE_NUMBERS = ["4.000", "4,000", "20_000", "4e3", "\uff14", "4 000", " 4", "+4", "1_0"]
NO_NUMBERS = ["4,000", "20_000", "\uff14", "4 000", " 4", "+4", "nan", "1_0", "inf", "1e999"]


def _commands() -> Iterator[tuple[str, Any]]:
    for name in sorted(COMMANDS.keys() - LAB):
        command = subcommand(name)
        if isinstance(command, typer.core.TyperGroup):
            yield from ((f"{name} {each}", found) for each, found in command.commands.items())
        else:
            yield name, command


def _number_options() -> Iterator[Any]:
    import inspect

    for where, command in _commands():
        for option in command.params:
            annotation = inspect.signature(command.callback).parameters.get(option.name)
            kinds = get_args(get_args(annotation.annotation)[0]) if annotation else ()
            kind = {*kinds, *(get_args(annotation.annotation)[:1] if annotation else ())}
            for number in {int, float} & kind:
                yield pytest.param(command, option, number, id=f"{where} {option.opts[0]}")


@pytest.mark.parametrize(("command", "option", "kind"), list(_number_options()))
def test_an_option_refuses_a_text_that_could_mean_two_numbers(
    command: Any, option: Any, kind: type
) -> None:
    name = next(each for each in option.opts if each.startswith("--"))
    for text in NO_WHOLE_NUMBERS if kind is int else NO_NUMBERS:
        if text == "inf" and "inf" in option.metavar:
            continue
        with pytest.raises(Problems) as refused:
            command.make_context("it", [f"{name}={text}"])
        assert any(f"{name} is {text!r}; expected" in str(e) for e in refused.value.errors)


def test_all_bad_and_missing_options_are_named_at_once() -> None:
    with pytest.raises(Problems) as refused:
        subcommand("fit").make_context("fit", ["--epsilon", "1_0", "--n-expected", "4.000"])
    starts = [str(error).split(" is ")[0] for error in refused.value.errors]
    assert starts == ["DATA", "--n-clusters", "--epsilon", "--n-expected"]


@pytest.mark.parametrize("text", NO_WHOLE_NUMBERS)
def test_a_cap_in_a_text_is_digits_only(text: str) -> None:
    with pytest.raises(PlanError, match="NAME:CAP"):
        given_clients([f"a:{text}"], [])


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_an_end_of_bounds_in_a_text_is_a_plain_number(text: str) -> None:
    for bounds in (f"{text}:5000", f"-5000:{text}", f"x=0:{text}"):
        with pytest.raises(DataError, match=r"LO:HI"):
            parse_bounds(f'"{bounds}"' if "," in text and "=" in bounds else bounds, ["x"])


@pytest.mark.parametrize(
    "text", ["client-1@1.0", "client-1@+1", "client-1@\uff11", "\uff11@1", "1_@1"]
)
def test_numbers_of_a_drop_are_digits_only(text: str) -> None:
    with pytest.raises(PlanError, match="drop"):
        parse_drop(text, ["client-1", "client-2"])


@pytest.mark.parametrize("text", ["0,5", "1_0", "+0.5", " 0.5", "1.0.0", "nan", "9" * 101])
def test_a_fraction_is_a_plain_number(text: str) -> None:
    with pytest.raises(FastLloydError, match="loss_share"):
        fraction(text, "loss_share")


def test_the_thousand_of_a_real_number_is_one() -> None:
    lower, upper = parse_bounds("0:1.000", ["x"])
    assert (*lower, *upper) == (0.0, 1.0)
