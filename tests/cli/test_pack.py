import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import zstandard
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.cli import pack
from hub.cli.errors import CliError, Usage


@pytest.fixture(autouse=True)
def git_is_nobodys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of whoever runs the tests, and no checkout above the test's own folder."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))


def _git(folder: Path, *words: str) -> None:
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", *words]
    subprocess.run(command, check=True, capture_output=True)


def _write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _tree(folder: Path) -> Path:
    return _write(
        folder,
        **{"b.txt": "b", "a/deep/file": "deep", "a.sh": "#!/bin/sh", ".gitignore": "*.log\n", "x.log": "no"},
    )


def _members(folder: Path) -> dict[str, tarfile.TarInfo]:
    with pack.pack(folder) as packed:
        data = packed.file.read()
        assert blake3(data).hexdigest() == packed.hash
        assert len(data) == packed.bytes
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return {member.name: member for member in tar.getmembers()}


def test_the_same_files_give_the_same_bytes_whoever_packs_them_and_when(tmp_path: Path) -> None:
    one, two = _tree(tmp_path / "one"), _tree(tmp_path / "two")
    (two / "b.txt").chmod(0o600)
    (two / "b.txt").touch()
    os.utime(two / "a.sh", (1, 1))
    with pack.pack(one) as first, pack.pack(two) as second:
        assert first.hash == second.hash
        assert first.files == 4


@pytest.mark.parametrize("change", ["content", "name", "may be executed"])
def test_what_a_job_could_notice_changes_the_hash(tmp_path: Path, change: str) -> None:
    one, two = _tree(tmp_path / "one"), _tree(tmp_path / "two")
    if change == "content":
        (two / "b.txt").write_text("c")
    elif change == "name":
        (two / "b.txt").rename(two / "c.txt")
    else:
        (two / "a.sh").chmod(0o755)
    with pack.pack(one) as first, pack.pack(two) as second:
        assert first.hash != second.hash


def test_members_are_sorted_and_tell_nothing_of_who_packed_them(tmp_path: Path) -> None:
    members = _members(_tree(tmp_path))
    assert list(members) == [".gitignore", "a.sh", "a/deep/file", "b.txt"]
    for member in members.values():
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
        assert (member.mtime, member.mode) == (pack.MTIME_S, 0o644)


def test_the_runner_can_unpack_it_with_the_strict_filter(tmp_path: Path) -> None:
    folder = _tree(tmp_path / "in")
    (folder / "link").symlink_to("a/deep")
    with pack.pack(folder) as packed:
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(packed.file.read())
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        tar.extractall(tmp_path / "out", filter="data")
    assert (tmp_path / "out/link/file").read_text() == "deep"


def test_a_link_that_leads_out_and_a_pipe_are_left_out_and_told(tmp_path: Path) -> None:
    folder = _write(tmp_path / "in", file="x")
    (folder / "sub").mkdir()
    (folder / "sub/out").symlink_to("../../secret")
    (folder / "absolute").symlink_to("/etc/passwd")
    (folder / "inside").symlink_to("sub/../file")
    os.mkfifo(folder / "pipe")
    with pack.pack(folder) as packed:
        assert packed.files == 2
        assert packed.left_out == (
            "left out absolute: the link leads out of the folder",
            "left out pipe: neither a file nor a link",
            "left out sub/out: the link leads out of the folder",
        )


def test_a_checkout_is_packed_as_git_sees_it(tmp_path: Path) -> None:
    folder = _tree(tmp_path)
    _git(folder, "init", "-q")
    _write(folder, **{"kept.log": "tracked though ignored", "gone": "deleted below", "new": "untracked"})
    (folder / ".git/info/exclude").write_text("private\n")
    _write(folder, private="x")
    _git(folder, "add", "-f", "kept.log", "gone", "b.txt")
    (folder / "gone").unlink()
    assert set(_members(folder)) == {".gitignore", "a.sh", "a/deep/file", "b.txt", "kept.log", "new"}


def test_a_checkout_within_the_checkout_travels_too_without_its_history(tmp_path: Path) -> None:
    folder = _tree(tmp_path)
    _git(folder, "init", "-q")
    inner = _write(folder / "vendor/inner", **{"code.py": "1", "x.tmp": "no", ".gitignore": "*.tmp"})
    _git(inner, "init", "-q")
    assert {"vendor/inner/code.py", "vendor/inner/.gitignore"} == {
        name for name in _members(folder) if name.startswith("vendor")
    }


def test_a_folder_within_a_checkout_that_ignores_it_is_packed_all_the_same(tmp_path: Path) -> None:
    _git(_write(tmp_path, **{".gitignore": "build/\n"}), "init", "-q")
    assert set(_members(_write(tmp_path / "build", made="x"))) == {"made"}


def test_only_the_folder_travels_not_the_checkout_around_it(tmp_path: Path) -> None:
    _git(_tree(tmp_path), "init", "-q")
    assert set(_members(tmp_path / "a")) == {"deep/file"}


NAMES = st.sampled_from(["a", "b", "log", "build", "a.log", "b.txt"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
RULE_TEXT = (
    "*.log !a.log /build build/ a/ !a/ a/b /a/* !/a/b **/log log/** * !*/ !*.txt #a b* [ab] a/**/b "
    "\\!x [!a] a? ** **/ b/**/log [[:alpha:]] [ ***/a [a-] \\a a\\"
)
RULES = st.sampled_from([*RULE_TEXT.split(), "", "*.log  "])
LINES = st.lists(RULES, max_size=4)


@settings(max_examples=40)
@given(
    files=st.sets(PATHS, min_size=1, max_size=10), rules=st.dictionaries(PATHS, LINES, max_size=2), top=LINES
)
def test_without_git_the_same_files_travel_as_with_it(
    files: set[str], rules: dict[str, list[str]], top: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    for name in files:
        path = folder / name
        if any(parent.is_file() for parent in path.parents) or path.is_dir():
            continue
        _write(folder, **{name: name})
    for place, lines in [("", top), *rules.items()]:
        if (folder / place).is_dir():
            (folder / place / ".gitignore").write_text("\n".join(lines) + "\n")
    walked = set(pack._walk(folder))
    _git(folder, "init", "-q")
    assert walked == pack.listing(folder)


def test_names_that_are_no_utf8_travel(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("x")
    (tmp_path / "käse").write_text("x")
    assert {os.fsencode(name) for name in _members(tmp_path)} == {b"caf\xe9", "käse".encode()}


def test_a_file_that_shrinks_meanwhile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, file="x" * 100)
    told = os.fstat

    def larger(number: int) -> os.stat_result:
        return os.stat_result((*told(number)[:6], 200, *told(number)[7:10]))

    monkeypatch.setattr(os, "fstat", larger)
    with pytest.raises(CliError, match="file changed while it was packed"):
        pack.pack(tmp_path)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="is not a folder"):
        pack.pack(tmp_path / "nothing")


def test_a_folder_over_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "MAX_FILES", 3)
    with pytest.raises(Usage, match="over the bound of 3"):
        pack.pack(_tree(tmp_path))


@pytest.mark.parametrize(
    ("remote", "project"),
    [
        ("git@github.com:andy/demo.git", "andy/demo"),
        ("https://git.example/andy/demo.git", "andy/demo"),
        ("ssh://git@git.example:2222/group/sub/demo", "sub/demo"),
        ("https://git.example/~andy/demo app.git/", "andy/demo-app"),
    ],
)
def test_the_project_comes_from_the_remote(tmp_path: Path, remote: str, project: str) -> None:
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "remote", "add", "origin", remote)
    assert pack.project_of(tmp_path) == project


def test_without_a_remote_the_project_is_local(tmp_path: Path) -> None:
    folder = tmp_path / "My Project"
    folder.mkdir()
    assert pack.project_of(folder) == "local/My-Project"
