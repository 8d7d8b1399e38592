"""Reports as tools write them, and as somebody who means harm does."""

from pathlib import Path
from xml.sax.saxutils import quoteattr


def junit(folder: Path, *cases: str, name: str = "report.xml") -> Path:
    """A file of these test cases, in one suite."""
    return write(folder, f'<testsuites><testsuite name="s">{"".join(cases)}</testsuite></testsuites>', name)


def case(name: str, inside: str = "", *, time: str | None = "0.5", classname: str | None = "t") -> str:
    """One test; `inside` says how it ended."""
    said = "".join(
        f" {key}={quoteattr(value)}"
        for key, value in (("classname", classname), ("name", name), ("time", time))
        if value is not None
    )
    return f"<testcase{said}>{inside}</testcase>"


def failure(message: str = "no", text: str = "") -> str:
    return f"<failure message={quoteattr(message)}>{text}</failure>"


def write(folder: Path, text: str | bytes, name: str = "report.xml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
