"""Runs somebody's own script with the entry points that it calls watched, and says what went in and how it compares; judges nothing."""
