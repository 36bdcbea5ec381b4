"""The report of a run: one HTML page that opens from disk, without a network and without a server."""

from __future__ import annotations

from nngcd.report.findings import findings_from_fit, read_findings
from nngcd.report.page import MAX_IMAGES, WrittenReport, write_report

__all__ = ["MAX_IMAGES", "WrittenReport", "findings_from_fit", "read_findings", "write_report"]
