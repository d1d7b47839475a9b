"""Whether a library is what it should be: checks, each with what is wrong, what that means and what to do."""

from shoal.doctor.examination import Report, examine
from shoal.doctor.findings import Check, Finding, Patient

__all__ = ["Check", "Finding", "Patient", "Report", "examine"]
