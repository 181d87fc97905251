"""A report: one HTML file that says what was found and works without a network."""

from app.report.document import report

__all__ = ["report"]
