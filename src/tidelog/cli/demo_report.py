"""The demo's verdict: what was counted and measured, as a table and as JSON."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tidelog.cli.demo_input import Unreadable
from tidelog.pipeline.jobs.verify import Verification
from tidelog.pipeline.logs.replicas import Comparison

_MAX_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """Everything the demo found out."""

    records: int
    """Records produced."""
    verification: Verification
    replicas: Comparison
    victim: int
    failover_ms: int | None
    """`None` when no record of the partition followed the kill."""
    isr_restored_ms: int
    truncated: list[str]
    unreadable: list[Unreadable]
    errors: list[str]
    delays: tuple[Path, int] | None
    """The answer about delays and its rows; `None` for an input without flights."""
    kept: Path | None
    """Where the nodes' data stays."""
    seconds: float

    @property
    def is_clean(self) -> bool:
        """Nothing acknowledged was lost, duplicated or reordered, and the replicas are the same."""
        return self.verification.is_clean and self.replicas.is_identical

    @property
    def unreadable_lines(self) -> int:
        """How many input lines became no record."""
        return sum(item.line_count for item in self.unreadable)

    def as_json(self) -> dict[str, Any]:
        """The contract of `--output json`."""
        return {
            "records": self.records,
            "acknowledged": self.verification.acknowledged,
            "read": self.verification.read,
            "lost": self.verification.lost,
            "duplicated": self.verification.duplicated,
            "misplaced": self.verification.misplaced,
            "replicas_identical": self.replicas.is_identical,
            "failover_ms": self.failover_ms,
            "isr_restored_ms": self.isr_restored_ms,
            "seconds": round(self.seconds, 1),
            "unacknowledged": self.verification.unacknowledged,
            "offset_gaps": self.verification.offset_gaps,
            "order_violations": self.verification.order_violations,
            "unreadable_lines": self.unreadable_lines,
        }


def print_report(report: DemoReport, console: Console) -> None:
    """The verdict for people."""
    table = Table(title="Verdict", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for name, value, remark in _rows(report):
        table.add_row(name, value, remark)
    console.print(table)
    for title, lines in _details(report):
        console.print(title)
        for line in lines[:_MAX_SHOWN]:
            console.print(f"  {line}")
        if len(lines) > _MAX_SHOWN:
            console.print(f"  … and {len(lines) - _MAX_SHOWN} more")
    if report.is_clean:
        console.print("[bold green]Nothing that was acknowledged was lost.[/bold green]")
    else:
        console.print("[bold red]The verdict is bad.[/bold red]")


def _rows(report: DemoReport) -> list[tuple[str, str, str]]:
    verified, replicas = report.verification, report.replicas
    failover = "-" if report.failover_ms is None else f"{report.failover_ms:,} ms"
    rows = [
        ("records produced", f"{report.records:,}", ""),
        ("unreadable lines", f"{report.unreadable_lines:,}", ""),
        ("acknowledged", f"{verified.acknowledged:,}", "acks=all, written to the ledger"),
        ("read back by Spark", f"{verified.read:,}", ""),
        ("lost", f"{verified.lost:,}", _mark(verified.lost)),
        ("duplicated", f"{verified.duplicated:,}", _mark(verified.duplicated)),
        ("misplaced", f"{verified.misplaced:,}", _mark(verified.misplaced)),
        ("missing offsets", f"{verified.offset_gaps:,}", _mark(verified.offset_gaps)),
        (
            "out of a key's order",
            f"{verified.order_violations:,}",
            _mark(verified.order_violations),
        ),
        ("present, but not acknowledged", f"{verified.unacknowledged:,}", ""),
        (
            "replicas identical",
            "yes" if replicas.is_identical else "no",
            f"{replicas.batches:,} batches, {replicas.size_bytes:,} bytes on each",
        ),
        ("kill to next acknowledgement", failover, f"partition 0, node {report.victim} killed"),
        (
            "restart to complete ISR",
            f"{report.isr_restored_ms:,} ms",
            f"truncated: {', '.join(report.truncated) or 'nothing'}",
        ),
    ]
    if report.delays is not None:
        path, count = report.delays
        rows.append(("delays by carrier and hour", f"{count:,} rows", str(path)))
    if report.kept is not None:
        rows.append(("nodes' data", "kept", str(report.kept)))
    rows.append(("seconds", f"{report.seconds:.1f}", ""))
    return rows


def _mark(faults: int) -> str:
    return "[red]bad[/red]" if faults else "[green]ok[/green]"


def _details(report: DemoReport) -> list[tuple[str, list[str]]]:
    """Titles and lines of what needs an explanation; empty ones are left out."""
    details = [
        ("What is wrong with acknowledged records:", list(report.verification.findings)),
        ("Where replicas differ:", [str(item) for item in report.replicas.differences]),
        ("Records that were not delivered:", report.errors),
        ("Input lines that became no record:", [str(item) for item in report.unreadable]),
    ]
    return [(title, lines) for title, lines in details if lines]
