"""The report of a run: one HTML page that opens from disk, without a network and without a server."""

from __future__ import annotations

from nngcd.report.findings import findings_from_fit
from nngcd.report.page import MAX_IMAGES, Written, write_report
from nngcd.report.reading import read_findings

__all__ = ["MAX_IMAGES", "Written", "findings_from_fit", "read_findings", "write_report"]
