"""Result of a run that had finished before the command was given again."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fastlloyd.cli import results, terminal
from fastlloyd.cli.failures import dispensable
from fastlloyd.cli.options import OutputOptions
from fastlloyd.errors import StateError
from fastlloyd.federation.plan.plan import Plan


def say_again(
    plan: Plan, output: OutputOptions, written: Callable[[Sequence[Path]], None] | None
) -> None:
    """Print the folder of a finished run's result, or the result itself with --json.

    written : function that receives the files of the result, which are then not shown, or None.

    Raises StateError if the folder does not contain the result.
    """
    found = results.finished_before(output.out, plan)
    if found is None:
        raise StateError(
            f"run {plan.run_id} has ended for this client (it finished); for another run, renew"
            f" the plan. {output.out} does not contain the result of this run; to see the result,"
            " pass its folder as --out"
        )
    if written is not None:
        written([Path(file) for file in found["files"]])
        return
    with dispensable():
        terminal.console(stderr=output.json).print(
            f"Run {plan.run_id} had already finished; this is its result."
        )
        results.say_where(output, [Path(file) for file in found["files"]], "")
        if output.json:
            terminal.print_json(found)
