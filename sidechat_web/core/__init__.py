"""The record as values: pure functions over events. Standard library only, no I/O, no clock."""
