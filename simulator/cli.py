"""`peloton simulate`: a workload through the production cores, on a virtual clock."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from simulator.garbage import rare_collections
from simulator.workloads.forms import FORMATS

if TYPE_CHECKING:
    from peloton.cli.session import Session
    from simulator.jobs import SimJob
    from simulator.results.figures import Figures
    from simulator.results.recorder import Record
    from simulator.simulation import Options, Simulation
    from simulator.workloads.audited import Durations
    from simulator.workloads.cluster import ClusterSettings

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
MOST_SEEDS = 1000
MOST_DAYS = 3650.0
MOST_JOBS = 2**32 - 1


@click.command()
@click.option("--trace", type=FILE, required=True, help="The jobs: in a file of one of the formats.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("auto", *FORMATS)),
    default="auto",
    show_default="by the ending of the file",
    help="What the trace is.",
)
@click.option("--archive", type=FILE, help="Of an audit log: the archive that tells how long jobs ran.")
@click.option(
    "--assume",
    type=click.FloatRange(0, 10_000_000, min_open=True),
    metavar="SECONDS",
    help="Of an audit log: how long batch jobs run of which the archive does not tell.",
)
@click.option("--cluster", type=FILE, help="Hosts and pools: YAML, or as a trace has them.")
@click.option("--live-hosts", is_flag=True, help="Hosts like those of the running cluster that are up.")
@click.option("--live-pools", is_flag=True, help="Pools like those of the running cluster.")
@click.option(
    "--save-cluster",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the hosts and pools that are used, as a file for --cluster.",
)
@click.option("--resmgr", type=FILE, help="Settings of the resource manager, as YAML.")
@click.option("--placement", type=FILE, help="Settings of the placement engines, as YAML.")
@click.option("--compare", type=FILE, help="Hosts and pools of another cluster, to compare with.")
@click.option("--compare-resmgr", type=FILE, help="Settings of the resource manager, to compare with.")
@click.option("--compare-placement", type=FILE, help="Settings of the placement engines, to compare with.")
@click.option(
    "--seeds",
    type=click.IntRange(1, MOST_SEEDS),
    default=1,
    show_default=True,
    help="How many runs, each with other small delays of jobs.",
)
@click.option(
    "--jitter",
    type=click.FloatRange(0, 86_400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Most delay of a job by a seed; the first run has none.",
)
@click.option(
    "--jobs", "most", type=click.IntRange(0, MOST_JOBS), default=0, help="Only the first jobs; 0: all."
)
@click.option(
    "--days",
    type=click.FloatRange(0, MOST_DAYS, min_open=True),
    default=MOST_DAYS,
    show_default=True,
    help="End after this many simulated days, though jobs wait or run.",
)
@click.option("--csv", "folder", type=click.Path(path_type=Path, file_okay=False), help="Write CSV files.")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False), help="Write charts as SVG files.")
@click.option(
    "--decisions",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what becomes of each job and run, as JSON lines.",
)
@click.pass_obj
@rare_collections()
def simulate(
    session: Session,
    trace: Path,
    form: str,
    archive: Path | None,
    assume: float | None,
    cluster: Path | None,
    live_hosts: bool,
    live_pools: bool,
    save_cluster: Path | None,
    resmgr: Path | None,
    placement: Path | None,
    compare: Path | None,
    compare_resmgr: Path | None,
    compare_placement: Path | None,
    seeds: int,
    jitter: float,
    most: int,
    days: float,
    folder: Path | None,
    page: Path | None,
    plots: Path | None,
    decisions: Path | None,
) -> None:
    """Show what a cluster would do with a workload: waits, use, fairness, preemption.

    The decisions are those of the cores that run in the daemons, on a virtual clock. The same input gives the
    same result. With --compare, --compare-resmgr or --compare-placement two configurations are run on the
    same workload, and their differences are shown with the spread over the seeds.

    Hosts and pools come from the file of --cluster, or from the running cluster by --live-hosts and
    --live-pools.
    """
    from peloton.errors import PelotonError
    from simulator.results.charts import charts_of, compared_waits, write_charts
    from simulator.results.files import write_csv, write_page
    from simulator.workloads.cluster import by_paths, read_cluster
    from simulator.workloads.jobs import read_jobs
    from simulator.workloads.live import write_cluster

    try:
        jobs = read_jobs(trace, form, most, _durations(archive, assume))
        given = _cluster(session, cluster, live_hosts, live_pools)
        jobs = by_paths(given, jobs)
        if save_cluster is not None:
            write_cluster(save_cluster, given)
        first = _runs(jobs, _Configuration(given, resmgr, placement), seeds, jitter, days, decisions)
        record, figures = first[0]
        charts = charts_of(record)
        if compare is not None or compare_resmgr is not None or compare_placement is not None:
            other = _runs(
                jobs,
                _Configuration(
                    given if compare is None else read_cluster(compare),
                    compare_resmgr or resmgr,
                    compare_placement or placement,
                ),
                seeds,
                jitter,
                days,
                None,
            )
            _show_comparison([each for _, each in first], [each for _, each in other])
            charts.append(compared_waits(record, other[0][0]))
        else:
            _show(figures, len(jobs))
        if folder is not None:
            write_csv(folder, record, figures)
        if page is not None:
            write_page(page, f"{trace.name} on {_name(cluster, live_hosts)}", record, figures, charts)
        if plots is not None:
            write_charts(plots, charts)
    except (PelotonError, OSError) as error:
        raise click.ClickException(str(error)) from None


def _durations(archive: Path | None, assume: float | None) -> Durations:
    from simulator.workloads.archived import jobs_by_id
    from simulator.workloads.audited import Durations

    return Durations({} if archive is None else jobs_by_id(archive), assume or 0.0)


def _cluster(session: Session, file: Path | None, live_hosts: bool, live_pools: bool) -> ClusterSettings:
    """Return the hosts and pools: of the file, or of the running cluster where that is asked for.

    Raises UsageError, CallFailed, Refused, InvalidArgument, ConfigError, OSError.
    """
    from peloton.cli.live_cluster import read_hosts, read_pools
    from simulator.workloads.cluster import ClusterSettings, read_cluster
    from simulator.workloads.live import hosts_like, pools_like

    if file is None and not live_hosts:
        raise click.UsageError("no hosts: give --cluster FILE, --live-hosts, or both for the pools of FILE")
    if file is not None and live_hosts and live_pools:
        raise click.UsageError(
            f"--cluster {file} has nothing left to say beside --live-hosts and --live-pools: "
            "leave it out, or one of these"
        )
    written = None if file is None else read_cluster(file)
    return ClusterSettings(
        hosts=hosts_like(read_hosts(session)) if written is None or live_hosts else written.hosts,
        pools=pools_like(read_pools(session)) if live_pools else () if written is None else written.pools,
    )


def _name(file: Path | None, live_hosts: bool) -> str:
    return "the running cluster" if file is None or live_hosts else file.name


class _Configuration(NamedTuple):
    """What is simulated."""

    cluster: ClusterSettings
    resmgr: Path | None
    placement: Path | None


def _runs(
    jobs: Sequence[SimJob],
    given: _Configuration,
    seeds: int,
    jitter: float,
    days: float,
    decisions: Path | None,
) -> list[tuple[Record, Figures]]:
    """Run a configuration with each seed."""
    return [
        _run(_delayed(jobs, seed, jitter), given, seed, days, None if seed else decisions)
        for seed in range(seeds)
    ]


def _delayed(jobs: Sequence[SimJob], seed: int, jitter: float) -> list[SimJob]:
    """Return the jobs, each delayed a little where the seed is not 0."""
    from dataclasses import replace

    if not seed:
        return list(jobs)
    random = Random(seed)
    moved = [replace(job, submit=job.submit + random.uniform(0, jitter)) for job in jobs]
    return sorted(moved, key=lambda job: job.submit)


def _run(
    jobs: Sequence[SimJob], given: _Configuration, seed: int, days: float, decisions: Path | None
) -> tuple[Record, Figures]:
    from simulator.results.decisions import follow
    from simulator.results.figures import figures_of
    from simulator.results.recorder import Recorder
    from simulator.simulation import Simulation
    from simulator.workloads.cluster import hosts_of, pools_of

    hosts = hosts_of(given.cluster)
    pools = pools_of(given.cluster, hosts, [job.pool for job in jobs])
    simulation = Simulation(hosts, pools, jobs, _options(given))
    recorder = Recorder(simulation)
    if seed:
        random = Random(seed)
        simulation.universe.shorten = lambda seconds, share: seconds * (1 - share * random.random())
    if decisions is None:
        _run_with_progress(simulation, days)
    else:
        decisions.parent.mkdir(parents=True, exist_ok=True)
        with decisions.open("w", encoding="utf-8") as file:
            follow(simulation, file)
            _run_with_progress(simulation, days)
    if not recorder.record.jobs:
        raise click.ClickException(f"no job has ended within {days:g} days of the simulated time")
    return recorder.record, figures_of(recorder.record)


def _run_with_progress(simulation: Simulation, days: float) -> None:
    """Run, with a bar of the jobs that have ended where somebody looks."""
    most = days * 86_400
    if not sys.stderr.isatty():
        simulation.run(most)
        return
    with click.progressbar(length=len(simulation.jobs), label="jobs", file=sys.stderr) as bar:
        note = simulation.on_end

        def ended(job: Any) -> None:
            note(job)
            bar.update(1)

        simulation.on_end = ended
        simulation.run(most)


def _options(given: _Configuration) -> Options:
    """Return the options of the daemons, by their settings where they are given."""
    from simulator.settings import options_of

    return options_of(given.resmgr, given.placement)


def _show(figures: Figures, jobs: int) -> None:
    ended = figures.groups[0].jobs
    if ended < jobs:
        click.echo(f"jobs that have ended: {ended} of {jobs}")
    for name, value in figures.main.items():
        click.echo(f"{name:>22}  {value:,.3f}")
    click.echo()
    head = "".join(f"{name:>12}" for name in ("mean wait", "p50", "p99", "completion"))
    click.echo(f"{'pool':<16}{'class':<16}{'jobs':>9}{head}")
    for each in figures.groups:
        numbers = (each.mean_wait, each.median_wait, each.p99_wait, each.mean_completion)
        values = "".join(f"{number:>12,.1f}" for number in numbers)
        click.echo(f"{each.pool:<16}{each.kind:<16}{each.jobs:>9,}{values}")


def _show_comparison(first: Sequence[Figures], other: Sequence[Figures]) -> None:
    """Show the means of both configurations, and their difference with its spread over the seeds."""
    click.echo(f"{'':>22}{'first':>16}{'other':>16}{'difference':>16}{'± spread':>14}")
    rows: Mapping[str, float] = first[0].main
    for name in rows:
        pairs = [(a.main[name], b.main[name]) for a, b in zip(first, other, strict=True) if name in b.main]
        if not pairs:
            continue
        differences = [b - a for a, b in pairs]
        mean = sum(differences) / len(pairs)
        spread = _deviation(differences)
        one, two = (sum(pair[at] for pair in pairs) / len(pairs) for at in (0, 1))
        click.echo(f"{name:>22}{one:>16,.3f}{two:>16,.3f}{mean:>+16,.3f}{spread:>14,.3f}")


def _deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 for a single value."""
    from statistics import stdev

    return stdev(values) if len(values) > 1 else 0.0
