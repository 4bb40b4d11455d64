"""Dataclasses of options as parameters of a command."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Put the fields of every parameter that is a dataclass on the command line in place of it.

    typer reads a command's signature, so the fields, `Annotated[type, typer.Option(...)]`, become
    keyword parameters of it.
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
