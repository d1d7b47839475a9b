"""Whether a library is what it should be: checks, each with what is wrong, what that means and what to do."""

from shoal.maintenance.doctor.findings import Check, CheckContext, Finding
from shoal.maintenance.doctor.runner import Report, examine

__all__ = ["Check", "CheckContext", "Finding", "Report", "examine"]
