"""What all report formats share: foreign text made harmless, numbers, and the sentences that say what was found."""

from kvcheck.report.words.errors import error_text
from kvcheck.report.words.findings import findings
from kvcheck.report.words.thresholds import threshold_sentence

__all__ = ["error_text", "findings", "threshold_sentence"]
