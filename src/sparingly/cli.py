"""The command line: `sparingly simulate`, `demo` and `episodes`. Run any with --help for examples."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sparingly.errors import MissingExtra, SparinglyError
from sparingly.version import __version__

try:
    import typer
    from rich.console import Console
except ImportError:
    sys.exit(f"sparingly: {MissingExtra('the command line', 'lab')}")

if TYPE_CHECKING:
    from sparingly.lab.experiment import Experiment

app = typer.Typer(
    help="Decide what to do, and whether to ask what it was worth, under a hard budget.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
Out = Annotated[Path, typer.Option("--out", help="Where the results go.", show_default=True)]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Threads to use; all cores by default.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, only the result.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    out: Annotated[Path | None, typer.Option("--out", help="Where the results go [default: results/NAME].")] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Run the experiment in a TOML file: a table here, results as Parquet, a figure with mean and band.

    Examples:

        sparingly simulate experiments/ten_arms.toml

        sparingly simulate experiments/greedy_trap.toml --out results/trap --jobs 2
    """
    from sparingly.lab.experiment import read_experiment

    _run_and_show([read_experiment(file)], out or Path("results") / file.stem, jobs, quiet)


@app.command()
def demo(out: Out = Path("results/demo"), jobs: Jobs = None, quiet: Quiet = False) -> None:
    """Greedy, paper matching and exact matching on a benign and on an adversarial stream.

    Example:

        sparingly demo --out results/demo
    """
    from sparingly.lab.demo import experiments

    _run_and_show(list(experiments()), out, jobs, quiet)


@app.command()
def episodes(
    out: Out = Path("results/episodes"),
    quick: Annotated[bool, typer.Option("--quick", help="A hundredth of the episodes: seconds, not minutes.")] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Reinforcement learning under a budget: four studies on random MDPs, as a report with tables and a figure.

    Examples:

        sparingly episodes --quick

        sparingly episodes --out results/episodes
    """
    from rich.markdown import Markdown

    from sparingly.lab import episodes as studies

    console = Console()
    out.mkdir(parents=True, exist_ok=True)

    def tell(line: str) -> None:
        if not quiet:
            console.print(line, markup=False, highlight=False)

    done = studies.run(quick, jobs, False if quiet else None, tell)
    path = studies.write(out, done)
    console.print(Markdown(path.read_text(encoding="utf-8")))
    console.print(f"Report: {path}\nFigure and data beside it.", soft_wrap=True, markup=False)


def _run_and_show(experiments: list[Experiment], out: Path, jobs: int | None, quiet: bool) -> None:
    """Run experiments, print a table each, write one Parquet file and one figure."""
    from rich.markup import escape

    from sparingly.lab import results

    console = Console()
    out.mkdir(parents=True, exist_ok=True)  # before the work, in case it cannot be
    done: dict[str, results.Results] = {}
    for experiment in experiments:
        start = time.perf_counter()
        if not quiet:
            size = f"{len(experiment.policies)} policies × {experiment.runs} runs"
            console.print(f"Running [bold]{escape(experiment.title)}[/]: {size} …")
        done[experiment.title] = dict(experiment.run(jobs=jobs, progress=False if quiet else None))
        console.print(results.table(experiment.title, done[experiment.title]))
        if not quiet:
            console.print(f"  took {time.perf_counter() - start:.1f} s\n")
    parquet, picture = out / "results.parquet", out / "figure.png"
    results.write_parquet(parquet, done)
    results.write_figure(picture, done)
    console.print(f"Results: {parquet}\nFigure:  {picture}", soft_wrap=True, markup=False)


def main() -> None:
    """Entry point: errors on purpose are one line, without a traceback."""
    try:
        app()
    except SparinglyError as error:
        print(f"sparingly: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"sparingly: {error.filename or 'the results'}: {error.strerror}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
