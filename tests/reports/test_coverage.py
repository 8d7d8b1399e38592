"""What is read of Cobertura's XML."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from hub.reports import coverage as reading
from hub.reports.bounded import Unreadable
from hub.reports.coverage import read_coverage
from tests.reports.writing import write


def package(name: str, *hits: int, method: str = "") -> str:
    lines = "".join(f'<line number="{n}" hits="{hit}"/>' for n, hit in enumerate(hits, start=1))
    return (
        f'<package name="{name}"><classes><class filename="{name}.py"><methods>{method}</methods>'
        f"<lines>{lines}</lines></class></classes></package>"
    )


def report(*packages: str, root: str = 'line-rate="0.5"') -> str:
    return f"<coverage {root}><packages>{''.join(packages)}</packages></coverage>"


def test_lines_are_counted_for_the_whole_and_by_package(tmp_path: Path) -> None:
    found = read_coverage(write(tmp_path, report(package("b", 1, 0, 0, 7), package("a", 1), package("b", 1))))
    assert (found.covered, found.lines) == (4, 6)
    assert [(one.name, one.covered, one.lines) for one in found.packages] == [("a", 1, 1), ("b", 3, 5)]


def test_lines_of_a_method_stand_in_its_class_too_and_count_once(tmp_path: Path) -> None:
    method = '<method><lines><line number="1" hits="1"/></lines></method>'
    found = read_coverage(write(tmp_path, report(package("a", 1, 0, method=method))))
    assert (found.covered, found.lines) == (1, 2)


def test_where_no_line_is_listed_the_root_is_believed(tmp_path: Path) -> None:
    found = read_coverage(write(tmp_path, report(root='lines-valid="200" lines-covered="150"')))
    assert (found.covered, found.lines, found.packages) == (150, 200, ())


def test_a_document_type_that_declares_nothing_is_passed_over(tmp_path: Path) -> None:
    doctype = '<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">'
    assert read_coverage(write(tmp_path, doctype + report(package("a", 1)))).lines == 1


def test_packages_beyond_the_bound_count_for_the_whole_and_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_PACKAGES", 2)
    found = read_coverage(write(tmp_path, report(*(package(name, 1, 0) for name in "abcd"))))
    assert (found.lines, len(found.packages)) == (8, 2)
    assert found.notes == ("2 packages beyond the first 2 are not shown",)


@pytest.mark.skipif(importlib.util.find_spec("coverage") is None, reason="needs the package coverage")
def test_a_report_of_coverage_itself_is_read(tmp_path: Path) -> None:
    (tmp_path / "it.py").write_text("def f(x):\n    if x:\n        return 1\n    return 2\nf(1)\n")
    run = [sys.executable, "-m", "coverage"]
    subprocess.run([*run, "run", "it.py"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([*run, "xml"], cwd=tmp_path, check=True, capture_output=True)
    found = read_coverage(tmp_path / "coverage.xml")
    assert (found.covered, found.lines) == (4, 5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('<!DOCTYPE c [<!ENTITY a "b">]><coverage>&a;</coverage>', "declares an entity"),
        ('<!DOCTYPE c [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]><coverage/>', "declares an entity"),
        ("<coverage>" + "<a>" * 101, "100 deep"),
        ("<report/>", "its root is <report>, not <coverage>"),
        ("<coverage/>", "names no lines"),
        ('<coverage lines-valid="-5" lines-covered="x"/>', "names no lines"),
        ("<coverage>", "not XML"),
        ("", "not XML"),
    ],
)
def test_what_is_no_report_is_refused_with_words(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        read_coverage(write(tmp_path, text))
