"""The doctor: checks of a library. Each finding says what is wrong, what it means and what to do."""

from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, Severity
from shoal.maintenance.doctor.runner import Report, run_checks

__all__ = ["Check", "CheckContext", "Finding", "Report", "Severity", "run_checks"]
