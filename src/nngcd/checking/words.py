"""The text of `nngcd check`."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from nngcd.core.words import count, duration
from nngcd.data.findings import Finding

if TYPE_CHECKING:
    from nngcd.checking.check import CheckReport


def report_words(report: CheckReport) -> list[str]:
    """Return the lines of the report: counts, findings, whether the data can be sorted, what to type next."""
    lines = [f"{report.data}  {count(report.n_files, 'file')}"]
    lines += [f"  {'images readable':<16} {report.n_images:>9,}"]
    lines += [f"  {'labelled':<16} {report.n_labelled:>9,}{_categories(report.category_sizes)}"]
    lines += [f"  {'unlabelled':<16} {report.n_unlabelled:>9,}"]
    problems = [finding for finding in report.findings if finding.severity != "note"]
    notes = [finding for finding in report.findings if finding.severity == "note"]
    for title, findings in (("Problems", problems), ("Notes", notes)):
        if findings:
            lines += ["", title, *(line for finding in findings for line in _lines(finding))]
    lines += ["", *_verdict(report)]
    return lines


def _categories(sizes: dict[str, int]) -> str:
    if not sizes:
        return ""
    smallest, largest = min(sizes, key=lambda name: sizes[name]), max(sizes, key=lambda name: sizes[name])
    found = f"  in {count(len(sizes), 'category', 'categories')}"
    if len(sizes) == 1:
        return f"{found} ({smallest})"
    if sizes[smallest] == sizes[largest]:
        return f"{found} ({sizes[smallest]:,} each)"
    return f"{found} (smallest: {smallest} {sizes[smallest]:,}, largest: {largest} {sizes[largest]:,})"


def _lines(finding: Finding) -> list[str]:
    verb = "say" if finding.severity == "stop" else "change"
    effect = f"{finding.effect}   {verb}: {finding.flags}" if finding.flags else finding.effect
    return [f"  {finding.code}  {finding.what}", f"       {effect}"]


def _verdict(report: CheckReport) -> list[str]:
    command = shlex.join(["nngcd", "fit", report.data, *report.flags])
    if not report.is_ready:
        stops = [finding for finding in report.findings if finding.severity == "stop"]
        reason = [] if stops else [f"  {report.refusal}"]
        again = shlex.join(["nngcd", "check", report.data, *report.flags])
        return ["Not ready: the problems that stop a fit come first above." if stops else "Not ready:", *reason,
                f"Next:  {_way_out(report, stops, again)}"]  # fmt: skip
    lines = [f"Ready.{_times(report)}"]
    if report.timing:
        lines.append(f"  ({report.timing})")
    lines += [f"  {line}" for line in report.other_networks]
    return [*lines, f"Next:  {command}"]


def _way_out(report: CheckReport, stops: list[Finding], command: str) -> str:
    first = stops[0] if stops else None
    if first is not None and first.code == "D08":
        return f"{command} {first.flags.split(' or ')[0]}   (or {first.flags.split(' or ')[1]})"
    if first is not None and first.code == "D15" and first.share == 1:
        return f"correct the file names in the table, then:  {command}"
    if not report.n_images:
        return f"add readable images, then:  {command}"
    if first is not None and first.code in ("D03", "D15", "D20"):
        share = math.ceil(round(100 * first.share, 6)) / 100
        return f"repair or remove the files, or continue without them:  {command} --allow-bad {share}"
    return f"fix this, then:  {command}"


def _times(report: CheckReport) -> str:
    if not report.seconds:
        return ""
    return "  Estimated time of a fit on this machine:  " + ",  ".join(
        f"{effort} about {duration(seconds)}" for effort, seconds in report.seconds.items()
    )
