"""The parts of report.html: one section a file, and what they share."""
