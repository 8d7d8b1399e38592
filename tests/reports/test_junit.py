"""What is read of JUnit's XML, whoever wrote it, and what is not."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hub.reports import bounded
from hub.reports import junit as reading
from hub.reports.bounded import Unreadable
from hub.reports.flaky import holds
from hub.reports.junit import JunitReport, digest, read_junit
from tests.reports.writing import case, failure, junit, write

ROOM = 100_000


def read(file: Path, room: int = ROOM) -> JunitReport:
    return read_junit(file, room=room)


def test_tests_are_counted_by_how_they_ended(tmp_path: Path) -> None:
    report = read(
        junit(
            tmp_path,
            case("passes", time="0.25"),
            case("fails", failure()),
            case("breaks", "<error message='e'>x</error>"),
            case("breaks too", "<failure/><error/>"),
            case("waits", "<skipped/>", time=None),
        )
    )
    assert (report.total, report.failed, report.errors, report.skipped) == (5, 1, 2, 1)
    assert report.duration_ms == 1750
    assert [(one.name, one.outcome) for one in report.failures] == [
        ("t::fails", "failed"),
        ("t::breaks", "error"),
        ("t::breaks too", "error"),
    ]
    assert report.passed == digest("t::passes")
    assert report.notes == ()


def test_a_report_of_pytest_itself_is_read(tmp_path: Path) -> None:
    suite = tmp_path / "test_it.py"
    suite.write_text(
        "import pytest, sys\n"
        "def test_good(): pass\n"
        "@pytest.mark.skip\ndef test_skipped(): pass\n"
        "@pytest.fixture\ndef broken(): raise RuntimeError('fixture')\n"
        "def test_error(broken): pass\n"
        "def test_bad():\n    print('said \\x1b[31m')\n    assert 1 == 2, '<&>'\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "junit_logging=all"]
    command += ["--junitxml=report.xml", str(suite)]
    subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)
    report = read(tmp_path / "report.xml")
    assert (report.total, report.failed, report.errors, report.skipped) == (4, 1, 1, 1)
    bad = next(one for one in report.failures if one.outcome == "failed")
    assert bad.name == "test_it::test_bad"
    assert bad.message.startswith("AssertionError: <&>")
    assert "assert 1 == 2" in bad.output
    assert "--- printed ---" in bad.output
    assert "\nsaid " in bad.output
    assert "\x1b" not in bad.output


@pytest.mark.parametrize(
    "text",
    [
        '<testsuite><testcase classname="t" name="a"/></testsuite>',
        '<testsuites><testcase classname="t" name="a"/></testsuites>',  # Node's own runner
        '<testsuite><testsuite><testcase classname="t" name="a"/></testsuite></testsuite>',
        '<testsuites xmlns="urn:x"><testsuite><testcase classname="t" name="a"/></testsuite></testsuites>',
        '<?xml version="1.0" encoding="latin-1"?><testsuite><testcase classname="t" name="a"/></testsuite>',
    ],
)
def test_a_test_is_found_wherever_it_stands(tmp_path: Path, text: str) -> None:
    report = read(write(tmp_path, text))
    assert (report.total, report.passed) == (1, digest("t::a"))


def test_the_slowest_ten_are_told_in_order(tmp_path: Path) -> None:
    report = read(junit(tmp_path, *(case(f"n{n}", time=str(n % 700)) for n in range(1400))))
    assert [one.duration_s for one in report.slowest] == [
        float(n) for n in (699, 699, 698, 698, 697, 697, 696, 696, 695, 695)
    ]


@pytest.mark.parametrize("time", ["", "soon", "nan", "inf", "-1", "1e30"])
def test_a_time_that_is_none_counts_as_not_told(tmp_path: Path, time: str) -> None:
    report = read(junit(tmp_path, case("a", time=time)))
    assert (report.total, report.duration_ms, report.slowest) == (1, 0, ())


def test_a_thousand_seconds_may_have_a_comma(tmp_path: Path) -> None:
    assert read(junit(tmp_path, case("a", time="1,234.5"))).duration_ms == 1_234_500


def test_a_test_that_failed_before_it_passed_has_both_outcomes(tmp_path: Path) -> None:
    report = read(junit(tmp_path, case("a", "<flakyFailure message='once'>x</flakyFailure>")))
    assert (report.failed, report.fell, report.passed) == (0, ("t::a",), digest("t::a"))


def test_every_passed_test_is_known_by_its_digest_and_no_other_is(tmp_path: Path) -> None:
    report = read(junit(tmp_path, *(case(f"n{n}") for n in range(500)), case("bad", failure())))
    assert all(holds(report.passed, digest(f"t::n{n}")) for n in range(500))
    assert not holds(report.passed, digest("t::bad"))
    assert not holds(b"", digest("t::bad"))


# --- bounds, each told


def test_a_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    text = "first" + "x" * 500_000 + "last"
    (bad,) = read(junit(tmp_path, case("a", failure(text=text)))).failures
    assert bad.output.startswith("first")
    assert bad.output.endswith("last")
    assert "characters left out" in bad.output
    assert len(bad.output) <= reading.MAX_OUTPUT + 200


def test_failed_tests_beyond_the_bound_are_counted_and_told(tmp_path: Path) -> None:
    report = read(junit(tmp_path, *(case(f"n{n}", failure()) for n in range(reading.MAX_FAILED + 7))))
    assert report.failed == reading.MAX_FAILED + 7
    assert len(report.failures) == len(report.fell) == reading.MAX_FAILED
    assert report.notes == ("7 more failed than the 200 that are kept",)


def test_output_for_which_there_is_no_room_is_left_out_and_told(tmp_path: Path) -> None:
    report = read(junit(tmp_path, *(case(f"n{n}", failure(text="y" * 1000)) for n in range(5))), room=2500)
    assert [len(one.output) for one in report.failures] == [1000, 1000, 0, 0, 0]
    assert report.notes == ("the output of 3 failed tests was left out: there was too much in all",)


def test_tests_beyond_the_bound_are_counted_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_CASES", 10)
    report = read(junit(tmp_path, *(case(f"n{n}") for n in range(25))))
    assert report.total == 10
    assert report.notes == ("15 tests beyond the first 10 were not read",)


def test_elements_beyond_the_bound_are_left_out_and_their_tests_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_ELEMENTS", 12)
    report = read(junit(tmp_path, *(case(f"n{n}", "<failure/><junk><failure/></junk>") for n in range(25))))
    assert report.total == 5
    assert report.notes == ("20 tests beyond the first 5 were not read",)


def test_a_name_is_one_line_of_bounded_length(tmp_path: Path) -> None:
    names = ["a\u202eb", "x" * 9000, "two\n  lines", ""]
    report = read(
        junit(tmp_path, *(case(name, failure()) for name in names), case("", failure(), classname=None))
    )
    shown = [one.name for one in report.failures]
    assert shown[0] == "t::a\ufffdb"
    assert len(shown[1]) == reading.MAX_NAME
    assert shown[2:] == ["t::two lines", "t", "a test without a name"]


def bomb() -> str:
    """Eight entities, each ten times the one before: 10^9 characters, if anybody wrote them out."""
    entities = ['<!ENTITY a0 "aaaaaaaaaa">']
    entities += [f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 9)]
    return f"<!DOCTYPE a [{''.join(entities)}]><testsuite><testcase name='&a8;'/></testsuite>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (bomb(), "document type or an entity"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><testsuite/>', "document type or an entity"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><testsuite>&x;</testsuite>', "an entity"),
        ("<testsuite>" + "<testsuite>" * 101, "100 deep"),
        ("<testsuite><a>" + "<b>" * 101, "100 deep"),
        ("<html></html>", "its root is <html>, not <testsuites> or <testsuite>"),
        ("<testcase/>", "its root is <testcase>"),
        ("", "it is not XML"),
        ("<testsuite>", "it is not XML"),
        ("{}", "it is not XML"),
        (b"\xff\xfe\x00", "it is not XML"),
        ('<?xml version="1.0" encoding="nonsense"?><testsuite/>', "it "),
    ],
)
def test_what_is_no_report_is_refused_with_words(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        read(write(tmp_path, text))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MAX_BYTES", 2**20)
    with pytest.raises(Unreadable, match=r"it has 1\.0 MiB: 1 MiB at most"):
        read(write(tmp_path, "<testsuite>" + "x" * 1_100_000))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                "<testsuite>",
                "</testsuite>",
                "<testsuites>",
                "</testsuites>",
                "<testcase name='a'>",
                "</testcase>",
                "<failure>",
                "</failure>",
                "<system-out>",
                "</system-out>",
                "text",
                "<![CDATA[<x>]]>",
                "&#0;",
                "&amp;",
                "&x;",
                "<!-- -->",
                "<?p?>",
                "\x00",
            ]
        ),
        max_size=12,
    )
)
def test_whatever_is_sent_is_read_or_refused(tmp_path: Path, parts: list[str]) -> None:
    with contextlib.suppress(Unreadable):
        report = read(write(tmp_path, "<testsuite>" + "".join(parts)))
        assert report.total >= report.failed + report.errors + report.skipped
