"""What all tests share: how long hypothesis searches, and what a skip means.

On a developer's machine a test may skip because something is not installed there; its reason then
begins with "needs ". Where CI is set that is a failure: the machine was to have it, and a test that
silently no longer runs proves nothing. SHUNTER_SKIPS=allow says that it is known and accepted.
"""

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# The machines that run these tests are small and shared: a deadline per example would tell of them.
_SLOW = [HealthCheck.too_slow]
settings.register_profile("quick", max_examples=50, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("ci", max_examples=200, deadline=None, suppress_health_check=_SLOW, print_blob=True)
settings.register_profile("long", max_examples=5000, deadline=None, suppress_health_check=_SLOW)
_IN_CI = os.environ.get("CI", "") not in ("", "0", "false")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if _IN_CI else "quick"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip for want of something on this machine into a failure, where CI is set."""
    if not report.skipped or not isinstance(report.longrepr, tuple):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if _IN_CI and reason.startswith("needs ") and os.environ.get("SHUNTER_SKIPS") != "allow":
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped in CI: {reason}"
