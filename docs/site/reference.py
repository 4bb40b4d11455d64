"""Pages of the reference, from the program's own tables: Python, commands, files and codes."""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import fastlloyd

PYTHON = {
    "Estimators": "MomentLloyd FastLloyd GLloyd SuLloyd Lloyd",
    "Forecasts, ledger, pipelines": "advise dataset check_private_pipeline",
    "Recipes": "Recipe RecipeTransformer",
    "Settings and plans": "Domain Mechanism read_mechanism Plan",
    "Sessions of a run": "ClientSession ServerSession",
    "Errors and warnings": (
        "FastLloydError ClippedRecordsWarning LedgerWarning NoisyResultWarning PrivacyLeakWarning"
        " UncountedFitWarning WeakGuaranteeWarning"
    ),
}
"""Public names of `fastlloyd`, by page."""

FURTHER = {
    "Requests (jobs)": (
        "jobs.fit.FitRequest jobs.fit.PreparedFit jobs.fit.FitOutcome"
        " jobs.simulate.SimulateRequest jobs.simulate.PreparedSimulation"
        " jobs.client.ClientRequest jobs.client.PreparedClient"
    ),
    "Records and bounds": (
        "records.read_table records.open_records records.Layout records.bounds.parse_bounds"
    ),
    "Mechanisms without an estimator": (
        "mechanisms.settings.Settings mechanisms.catalogue.design mechanisms.central.cluster"
        " mechanisms.engines.engine.Engine mechanisms.engines.records.EngineRecords"
    ),
    "Privacy": ("dp.gdp.gdp_mu dp.gdp.gdp_epsilon dp.accountant.Accountant dp.noise.SystemNoise"),
}
"""Names of other modules that pages and examples use, by page."""

FILES = {
    "privacy.json": "statement: the guarantee, its noise, and everything outside the guarantee",
    "centroids.csv": "centroids, noisy counts, standard errors and intervals",
    "centroids.json": "the same with every digit",
    "bounds.toml": "bounds that a run found, with noise",
    "bounds-mechanism.toml": "settings of the run that found the bounds, sealed with a digest",
    "mechanism.toml": "every public setting of the run, sealed with a digest",
    "plan.toml": "the plan of a run with others, in place of `mechanism.toml`",
    "rounds.json": "clients in the sum of each round",
    "clusters.png": "picture of noisy numbers; with `--plot-data` it shows records: NOT PRIVATE",
    "comparison-NOT-PRIVATE.json": "exact comparison with Lloyd: NOT PRIVATE",
    "unfinished.json": "a run with others that ended without a result: how far it came",
    "result.html": "page for people, made from the other files",
    "names.toml": "title and names of clusters that people gave",
}
"""Files of a result, and what each holds."""

LINKS = """\
- [Python](reference/python.md): every public name
- [Command line](reference/command-line.md): every command with its options
- [Files of a result](reference/files.md)
- [Codes](reference/codes.md): exit codes, errors, what is outside the guarantee
- [Names for experiments](reference/experiments.md): methods, measures, figures, data sets
"""
"""Lines of the part Reference about these pages."""


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every page."""
    yield "python", _python()
    for title, names in PYTHON.items():
        yield _file(title), _names(title, names.split())
    for title, names in FURTHER.items():
        yield _file(title), _names(title, names.split())
    yield "command-line", _command_line()
    yield "files", _files()
    yield "codes", _codes()
    yield "experiments", _experiments()


def _file(title: str) -> str:
    return "python-" + re.sub(r"\W+", "-", title.lower()).strip("-")


def _python() -> str:
    shown = {name for names in PYTHON.values() for name in names.split()}
    if missing := {*fastlloyd.__all__} - shown - {"__version__"}:
        raise SystemExit(f"docs/site/reference.py names no page for {', '.join(sorted(missing))}")
    rows = [
        f"| [`{name}`]({_file(title)}.md#{name.lower()}) | {_summary(getattr(fastlloyd, name))} |"
        for title, names in PYTHON.items()
        for name in names.split()
    ]
    return "\n".join(
        [
            "# Python",
            "",
            "`import fastlloyd` has these names. `fastlloyd.__version__` is the version.",
            "",
            "| name | what it is |",
            "|---|---|",
            *rows,
            "",
            "Pages and examples also use names of other modules, which may change sooner:",
            "",
            *(f"- [{title}]({_file(title)}.md)" for title in FURTHER),
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *map(_file, (*PYTHON, *FURTHER)),
            "```",
            "",
        ]
    )


def _summary(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def _names(title: str, names: list[str]) -> str:
    lines = [f"# {title}", ""]
    for name in names:
        module, _, own = f"fastlloyd.{name}".rpartition(".")
        thing = getattr(importlib.import_module(module), own)
        kind = "autoclass" if inspect.isclass(thing) else "autofunction"
        lines += [f"## {name.rpartition('.')[2]}", ""]
        lines += ["```{eval-rst}", f".. {kind}:: fastlloyd.{name}", "```", ""]
    return "\n".join(lines)


def _commands() -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the command and its context of every command."""
    from typer import Context
    from typer.main import get_command

    from fastlloyd.cli.app import LAB, app, subcommand

    top: Any = get_command(app)
    for name in [name for name in top.list_commands(Context(top)) if name not in LAB]:
        command = subcommand(name)
        context = Context(command, info_name=name, parent=Context(top, info_name="fastlloyd"))
        yield name, command, context
        for below, child in getattr(command, "commands", {}).items():
            yield f"{name} {below}", child, Context(child, info_name=below, parent=context)


def _command_line() -> str:
    from fastlloyd.cli.help_text import EXAMPLES, description, option_groups, option_names

    lines = [
        "# Command line",
        "",
        "These are the words of `fastlloyd COMMAND --help`. All commands have the same [exit",
        "codes](codes.md#exit-codes).",
    ]
    for name, command, context in _commands():
        lines += ["", f"## fastlloyd {name}", ""]
        lines += [
            f"{_plain(paragraph)}\n"
            for paragraph in (command.help or "").split("\f")[0].split("\n\n")
        ]
        if name in EXAMPLES:
            lines += ["```sh", *EXAMPLES[name], "```", ""]
        if hasattr(command, "commands"):
            continue
        for title, options in option_groups(name, command.get_params(context)):
            shown = [option for option in options if "--help" not in option.opts]
            if shown:
                lines += [f"**{title}**", ""]
                lines += [f"- `{option_names(o)}`  \n  {_plain(description(o))}" for o in shown]
                lines += [""]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Return the words of a help text as Markdown that shows each as it is."""
    return "`".join(
        re.sub(r"([\\*_<>\[\]|])", r"\\\1", piece) if i % 2 == 0 else piece
        for i, piece in enumerate(" ".join(text.split()).split("`"))
    )


def _files() -> str:
    from fastlloyd.reports import run_result

    if {*FILES} != {*run_result.FILES}:
        raise SystemExit("docs/site/reference.py describes other files than run_result.FILES")
    rows = [f"| `{name}` | {words} |" for name, words in FILES.items()]
    return "\n".join(
        [
            "# Files of a result",
            "",
            "`fit`, `simulate`, `join` and `bounds estimate` write some of these into a folder",
            "(`--out`). The guarantee covers all of them, except what is marked NOT PRIVATE.",
            "",
            "| file | what it holds |",
            "|---|---|",
            *rows,
            "",
            "`fastlloyd result` writes `statement.html` (`--statement`) and `registry.yaml`",
            "(`--registry`) if you ask for them: [read a result](../how-to/read-a-result.md).",
            "Later versions read [files of earlier versions](../compatibility.md).",
            "What commands read: [files and bounds](../input.md).",
            "",
        ]
    )


def _codes() -> str:
    from fastlloyd import errors
    from fastlloyd.cli import failures, network
    from fastlloyd.mechanisms.uncertainty import Status
    from fastlloyd.reports.outside import table

    exits = {
        failures.DONE: "done",
        failures.UNEXPECTED: "an error of the program: please report it",
        failures.REFUSED: "refused; the sentence names the fault and the remedy",
        network.NO_RESULT: "a run with others is over without a result",
        network.STOPPED: "this party of a run was stopped; the same command goes on",
        network.TURNED_AWAY: "the server turned this client away; the run is not over",
        failures.INTERRUPTED: "interrupted by Ctrl-C",
        143: "ended by SIGTERM",
        129: "ended with its terminal (SIGHUP)",
    }
    kinds = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, errors.FastLloydError)
    ]
    lines = ["# Codes", "", "## Exit codes", "", "| exit code | meaning |", "|---|---|"]
    lines += [f"| {code} | {words} |" for code, words in exits.items()]
    lines += ["", "## Errors in Python", "", "| code | class | meaning |", "|---|---|---|"]
    lines += [f"| `{each.kind}` | `{each.__name__}` | {_summary(each)} |" for each in kinds]
    lines += ["", "Some errors have a [code of their own](../compatibility.md#codes-of-errors)."]
    lines += ["", "## Outside the guarantee", ""]
    lines += ["`privacy.json` lists these codes under `outside_the_guarantee`.", ""]
    lines += [table()]
    lines += ["", "## Status of a cluster", "", "| status | |", "|---|---|"]
    lines += [f"| `{each.value}` | [what it means](../accuracy.md#status) |" for each in Status]
    return "\n".join(lines) + "\n"


def _experiments() -> str:
    from fastlloyd_lab.datasets import CATALOGUE, synthetic
    from fastlloyd_lab.experiments.measures import FIGURES, MEASURES
    from fastlloyd_lab.experiments.methods import METHODS

    better = {-1: "smaller", 0: "", 1: "larger"}
    lines = [
        "# Names for experiments",
        "",
        "A [specification](../how-to/specifications.md) names these, and methods and sets of your",
        "own as `FILE.py:NAME`. `fastlloyd experiment run SPEC --dry-run` checks its names.",
    ]
    lines += ["", "## Methods", ""]
    lines += ["| name | method | noise | options to sweep |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {method.label} | {'by epsilon' if method.private else 'none'} |"
        f" {', '.join(f'`{option}`' for option in sorted(method.options))} |"
        for name, method in METHODS.items()
    ]
    lines += ["", "## Measures", "", "| name | measure | better |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {measure.axis} | {better[measure.better]} |"
        for name, measure in MEASURES.items()
    ]
    lines += ["", "## Figures", "", *(f"- `{name}`" for name in FIGURES)]
    lines += [
        "",
        "## Public data sets",
        "",
        "[Fetch them](../how-to/data-sets.md#fetch) first, except where scikit-learn has them.",
        "",
        "| name | records | features | usual clusters | fetch |",
        "|---|---:|---:|---:|---|",
    ]
    lines += [
        f"| `{name}` | {entry.n_records:,} | {entry.n_features} | {entry.n_clusters} |"
        f" {'scikit-learn has it' if entry.bundled else 'yes'} |"
        for name, entry in CATALOGUE.items()
    ]
    lines += ["", "## Generated sets", "", "| name | records |", "|---|---|"]
    lines += [f"| `{each.pattern}` | {_plain(each.text)} |" for each in synthetic.FAMILIES]
    return "\n".join(lines) + "\n"
