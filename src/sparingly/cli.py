"""The command line: `sparingly reproduce`, `claims`, `simulate`, `sweep`, `plan`, `demo`, `episodes`, `serve`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sparingly.errors import InvalidInput, MissingExtra, SparinglyError
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
Out = Annotated[Path, typer.Option("--out", help="Folder for the results.", show_default=True)]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Threads to use; all cores by default.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the result, no progress.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", envvar="SPARINGLY_DATA", help="A folder for SQLite, one process [default: sparingly-data]."),
]
Database = Annotated[
    str | None,
    typer.Option("--database", envvar="SPARINGLY_DATABASE", help="The URL of a PostgreSQL database, many processes."),
]


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
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the results [default: results/NAME].")] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Run the experiment in a TOML file: print a table, and write a figure and the results as Parquet.

    Examples:

        sparingly simulate experiments/ten_arms.toml

        sparingly simulate experiments/greedy_trap.toml --out results/trap --jobs 2
    """
    from sparingly.lab.experiment import read_experiment

    _run_and_show([read_experiment(file)], out or Path("results") / file.stem, jobs, quiet)


@app.command()
def demo(out: Out = Path("results/demo"), jobs: Jobs = None, quiet: Quiet = False) -> None:
    """Compare five rules on ten arms, with few and with many asks, and against an adversary.

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
    """Run four studies of reinforcement learning under a budget, on random MDPs, and write a report.

    Examples:

        sparingly episodes --quick

        sparingly episodes --out results/episodes
    """
    from rich.markdown import Markdown

    from sparingly.lab import episodic_studies as studies

    console = Console()
    out.mkdir(parents=True, exist_ok=True)

    def tell(line: str) -> None:
        if not quiet:
            console.print(line, markup=False, highlight=False)

    done = studies.run(quick, jobs, False if quiet else None, tell)
    path = studies.write(out, done)
    console.print(Markdown(path.read_text(encoding="utf-8")))
    console.print(f"Report: {path}\nFigure and data beside it.", soft_wrap=True, markup=False)


@app.command()
def reproduce(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="IDS", help="Claims, or groups of them (`ucb`); all by default.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Minutes; this is the default.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The long runs that the docs quote, instead.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the report [default: results/reproduce/MODE].")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Claims to run at a time; one per core by default.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of all random numbers.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Run the claims of the paper and our own, judge them, and write a report.

    Finished claims are kept: run the same command again to resume. The exit code is 1 if one of the selected claims
    fails.

    Examples:

        sparingly reproduce --quick

        sparingly reproduce ucb oful/budget --full --out results/reproduce/full
    """
    from sparingly.lab import reproduce as work
    from sparingly.lab.conclusion import conclusion
    from sparingly.lab.progress_screen import ClaimsScreen

    if quick and full:
        raise InvalidInput("--quick and --full were both given; choose one")
    mode = "full" if full else "quick"
    folder = out or Path("results") / "reproduce" / mode
    claims = work.choose(ids or [])
    console = Console()
    screen = ClaimsScreen(console, len(claims), quiet)
    try:
        with screen:
            records = work.reproduce(claims, folder, mode, seed, jobs, screen.callbacks)
    except KeyboardInterrupt:
        console.print(
            f"Stopped. What is done is kept in {folder}; the same command goes on from there.",
            markup=False,
            soft_wrap=True,
        )
        sys.stdout.flush()
        os._exit(130)  # threads in the middle of a claim cannot be stopped
    console.print(work.table(records) if ids else conclusion(records, mode, folder))
    for record in records:
        if record.verdict == "fails":
            open_checks = [c.says for c in record.evidence.checks if c.outcome != "shown" and c.form != "stated"]
            console.print(f"{record.id} fails: {'; '.join(open_checks)}", markup=False, soft_wrap=True)
    if ids:
        console.print(
            f"Report: {folder / 'report.html'}\nData:   checks.parquet, curves.parquet and claims.json beside it",
            soft_wrap=True, markup=False,
        )  # fmt: skip
    if any(record.verdict == "fails" for record in records if record.id in {claim.id for claim in claims}):
        raise typer.Exit(1)


@app.command()
def claims() -> None:
    """List the claims that `sparingly reproduce` can run.

    Example:

        sparingly claims
    """
    from sparingly.lab.reproduce import listing

    Console().print(listing())


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="The grid, a TOML file.")],
    on: Annotated[str, typer.Option("--on", help="Where cells run: local, dask or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="Address of a running cluster; without it, workers start here.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Workers to start; one per core by default.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the results [default: results/NAME].")] = None,
    retries: Annotated[int, typer.Option("--retries", min=0, help="How often to retry a cell that fails.")] = 2,
    quiet: Quiet = False,
) -> None:
    """Run a grid of problems, learners, rules, budgets and seeds, on this machine or on a cluster.

    A list in place of a value is a grid. Finished cells are kept: run the same command again to resume. The results are
    one Parquet file, with the same bytes wherever the cells ran. If a cell fails, the others go on, and the exit code
    is 1.

    Examples:

        sparingly sweep experiments/sweeps/budgets.toml

        sparingly sweep experiments/sweeps/budgets.toml --on dask --jobs 2 --out results/on-dask

        sparingly sweep experiments/sweeps/budgets.toml --on dask --address tcp://10.0.0.5:8786

        sparingly sweep experiments/sweeps/budgets.toml --on ray --address 10.0.0.5:6379
    """
    from sparingly.lab import backends
    from sparingly.lab import sweep as work
    from sparingly.lab.progress_screen import SweepScreen
    from sparingly.lab.reproduce import code_digest
    from sparingly.lab.sweep_grid import read_sweep

    console = Console()
    folder = out or Path("results") / file.stem
    asked = read_sweep(file, code_digest())
    try:
        with backends.open_backend(on, address, jobs) as backend:
            done = work.run_sweep(asked, folder, backend, retries, SweepScreen(console, len(asked.cells), quiet))
    except KeyboardInterrupt:
        stopped = f"Stopped. What is done is kept in {folder}; the same command goes on from there."
        console.print(stopped, markup=False, soft_wrap=True)
        raise typer.Exit(130) from None
    if done.groups:
        for view in work.tables(asked.title, done.groups):
            console.print(view)
        work.figure(asked.title, done.groups).savefig(folder / "figure.png", dpi=150)
        console.print(
            f"Results: {folder / 'results.parquet'}\nFigure:  {folder / 'figure.png'}", soft_wrap=True, markup=False
        )
    for cell, error in done.failures.items():
        last = error.strip().splitlines()[-1]
        console.print(f"{cell} failed: {last}; see {folder / 'failures' / cell}.txt", soft_wrap=True, markup=False)
    if done.failures:
        raise typer.Exit(1)


@app.command()
def serve(
    data: Data = None,
    database: Database = None,
    host: Annotated[
        str, typer.Option("--host", envvar="SPARINGLY_HOST", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", envvar="SPARINGLY_PORT", min=0, max=65_535, help="0 takes any free one.")
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", envvar="SPARINGLY_TOKEN_FILE", help="A file with the token that may do everything."
        ),
    ] = None,
    paused: Annotated[
        bool,
        typer.Option(
            "--paused", envvar="SPARINGLY_PAUSED", help="Pause every agent first: after the restore of an older copy."
        ),
    ] = False,
    keep_payloads: Annotated[
        float | None,
        typer.Option(
            "--keep-payloads",
            envvar="SPARINGLY_KEEP_PAYLOADS",
            min=0.0,
            help="Days until the payload of a decision is erased; for ever by default.",
        ),
    ] = None,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", envvar="SPARINGLY_LOG_REQUESTS", help="Log a line for every request.")
    ] = False,
    peer: Annotated[
        str | None,
        typer.Option(
            "--peer",
            envvar="SPARINGLY_PEER",
            help="How other processes on the same --database reach this one, as http://10.0.0.5:8000. Those with "
            "--peer forward requests to the one where an agent is at home.",
        ),
    ] = None,
) -> None:
    """Run the decision service: HTTP, durable, never beyond the budget. Its page is at the address it prints.

    Examples:

        sparingly serve --data sparingly-data

        sparingly serve --database postgresql://sparingly@db.internal/sparingly --host 0.0.0.0 --token-file /run/token
    """
    try:
        from sparingly.serve import run
    except ImportError as error:
        raise MissingExtra(f"the service ({error.name} is missing)", "serve") from None

    run.serve(data, database, host, port, token_file, paused, keep_payloads, log_requests, peer)


@app.command()
def verify(data: Data = None, database: Database = None) -> None:
    """Check every log in a store: its checksums, its counters, and what has become of each decision.

    It changes nothing, and may run beside the service. If something is wrong, it prints a line for each error and exits
    with code 1. The service runs the same checks at its start and once a day.

    Examples:

        sparingly verify --data sparingly-data
    """
    from sparingly.serve import store_commands

    raise typer.Exit(store_commands.verify(data, database))


@app.command()
def migrate(
    data: Data = None,
    database: Database = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do all of it, say how it went, and undo it.")] = False,
    backup: Annotated[
        Path | None, typer.Option("--backup", help="For SQLite: first copy the database to this new file.")
    ] = None,
    no_backup: Annotated[bool, typer.Option("--no-backup", help="There is a backup already.")] = False,
) -> None:
    """Migrate a store of an older release to this one. Stop the service first.

    Examples:

        sparingly migrate --data sparingly-data --dry-run

        sparingly migrate --data sparingly-data --backup before.sqlite
    """
    from sparingly.serve import store_commands

    store_commands.migrate(data, database, dry_run, backup, no_backup)


@app.command()
def plan(
    data: Annotated[str, typer.Argument(help="A file (.csv, .tsv, .parquet), or movielens, digits, phishing, …")],
    budgets: Annotated[str, typer.Option("--budgets", help="Budgets to try, separated by commas.")],
    rules: Annotated[
        str, typer.Option("--rules", help="Rules to compare, separated by commas; `uniform` asks at random.")
    ] = "BalancedMatching,ExactMatching,Greedy,uniform",
    learner: Annotated[
        str | None,
        typer.Option("--learner", help="For example 'OFUL(scale=0.3)' [default: the one that fits the data]."),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option("--costs", help="Cost of an ask, by action: 1,2,5 or NAME=COST,…; budgets are then money."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", help="PART=COLUMN,…; may be repeated. See the examples.")
    ] = None,
    rescale: Annotated[bool, typer.Option("--rescale", help="Map the rewards linearly to 0 … 1.")] = False,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Rounds per run [default: as many as the data has].")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs of each rule at each budget.")] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**53, help="Seed of all random numbers.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the report [default: results/plan/NAME].")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Processes; one per core by default.")] = None,
    quiet: Quiet = False,
) -> None:
    """How many questions do I need to ask? Measure reward against budget on your data: a table, a figure, a report.

    DATA is a table with the reward of every action, a table with features and a label, or a log with propensities.
    The parts of --columns: context or features; rewards, or label, or action, reward and propensity.

    Examples:

        sparingly plan movielens --budgets 100,300,1000,3000

        sparingly plan answers.csv --budgets 50,200,800 --columns context=topic --columns rewards=small,large

        sparingly plan answers.csv --budgets 20,50,100 --costs small=0.1,large=1 --columns rewards=small,large

        sparingly plan flowers.parquet --budgets 20,60 --columns features=length,width --columns label=kind

        sparingly plan log.csv --budgets 100,300 --columns context=page,action=item,reward=click,propensity=p
    """
    from sparingly.lab import planning_cli

    numbers = {"rounds": rounds, "runs": runs, "seed": seed, "jobs": jobs, "progress": False if quiet else None}
    planning_cli.run(data, budgets, rules, learner, costs, columns or [], out, numbers, rescale, quiet)


def _run_and_show(experiments: list[Experiment], out: Path, jobs: int | None, quiet: bool) -> None:
    """Run experiments, print a table each, write one Parquet file and one figure."""
    from rich.markup import escape

    from sparingly.lab import experiment_results as results

    console = Console()
    out.mkdir(parents=True, exist_ok=True)  # before the work, in case it cannot be made
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
    """Entry point: expected errors are one line, without a traceback."""
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
