"""Benchmarks: ratios in one run, beside a peer or a physical limit. Never part of the test suite."""
