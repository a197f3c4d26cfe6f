"""Files survive faults at every step of a write, and other processes beside it; and only one module writes files."""

import ast
import errno
import os
import re
import stat
import subprocess
import sys
from contextlib import suppress
from types import ModuleType

import pytest
from faults import at_line, fails
from project import ROOT, python
from refusals import said

from minikv import files
from minikv.files import destination, locked, read_object, replace

fcntl = pytest.importorskip("fcntl") if os.name == "posix" else None
posix = pytest.mark.skipif(os.name != "posix", reason="as POSIX has it")
OLD, NEW = "old\n", "new and longer\n"


@pytest.fixture
def path(tmp_path):
    """A file with the old content, alone in its folder; nothing else may be there at the end."""
    path = tmp_path / "folder" / "notes.txt"
    path.parent.mkdir()
    path.write_text(OLD, "utf-8")
    yield path
    assert {*os.listdir(path.parent)} <= {"notes.txt", "other"}


def content_of(path):
    return path.read_text("utf-8") if path.exists() else None


# -- replace ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [("\u00e4\r\nb\n", b"\xc3\xa4\r\nb\n"), (b"\xff\x00", b"\xff\x00"), (iter([b"in ", b"parts"]), b"in parts")],
    ids=["text", "bytes", "parts"],
)
def test_text_is_written_as_it_is_and_bytes_and_parts_too(data, expected, path):
    replace(str(path), data)
    assert path.read_bytes() == expected


@pytest.mark.parametrize("old", [OLD, None])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), MemoryError()], ids=repr)
def test_an_error_at_any_line_leaves_the_old_or_the_new_content_and_nothing_else(error, old, path):
    def fault():
        raise error

    n, lines, found = 0, [], set()
    while len(lines) >= n:
        path.unlink(missing_ok=True)
        if old is not None:
            path.write_text(old, "utf-8")
        n += 1
        with at_line(n, fault) as lines, suppress(type(error)):
            replace(path, NEW)
            assert content_of(path) == NEW, n
        assert content_of(path) in (old, NEW), n
        assert os.listdir(path.parent) == ([] if content_of(path) is None else ["notes.txt"]), n
        found.add(content_of(path))
    assert n > 9
    assert old in found


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_system_call_that_fails_is_an_error_about_the_file_and_changes_nothing(step, path, monkeypatch):
    monkeypatch.setattr(files if step == "open" else os, step, fails(errno.EIO), raising=False)
    assert said(replace, path, NEW) == f"OSError: [Errno {errno.EIO}] Input/output error: {str(path)!r}"
    monkeypatch.undo()
    assert content_of(path) == OLD


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from faults import at_line
from minikv.files import replace
path, n, left, OLD, NEW = Path({path!r}), 0, [], {old!r}, {new!r}
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    n += 1
    path.write_text(OLD, "utf-8")
    child = os.fork()
    if not child:
        with at_line(n, kill):
            replace(path, NEW)
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    assert path.read_text("utf-8") in ((OLD, NEW) if ended else (NEW,)), (n, path.read_bytes())
    if not ended:
        break
    left.append([name for name in os.listdir(path.parent) if name != path.name])
    for name in left[-1]:
        path.with_name(name).unlink()
print(len(left), *sorted(set(name for names in left for name in names)))
assert max(map(len, left)) == 1
"""


@posix
def test_kill_9_at_any_line_leaves_the_old_or_the_new_content_and_at_most_a_temporary_file(path):
    done = python("-c", KILLED.format(tests=str(ROOT / "tests"), path=str(path), old=OLD, new=NEW))
    assert done.stderr == ""
    killed, *left = done.stdout.split()
    assert int(killed) > 20
    assert left
    assert all(re.fullmatch(r"\.notes\.txt\.[0-9a-f]{16}\.minikv-tmp", name) for name in left)


LIMITED = """
import resource, signal, sys
from minikv.files import replace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
try:
    replace(sys.argv[1], "x" * 1000)
except OSError as error:
    print(error)
"""


@posix
def test_a_write_that_the_system_stops_half_way_leaves_the_old_content(path):
    assert python("-c", LIMITED, path).stdout == f"[Errno {errno.EFBIG}] File too large: {str(path)!r}\n"
    assert content_of(path) == OLD


@posix
def test_the_mode_stays_and_a_new_file_has_the_usual_one(path):
    path.chmod(0o640)
    replace(path, NEW)
    before = os.umask(0o027)
    try:
        replace(path.with_name("other"), NEW)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(place.stat().st_mode) for place in (path, path.with_name("other"))] == [0o640] * 2


@posix
def test_a_link_stays_a_link_to_the_new_content(path, tmp_path):
    link, dangling, other = tmp_path / "link", tmp_path / "dangling", path.with_name("other")
    for each, target in ((link, path), (dangling, other)):
        each.symlink_to(target)
        replace(each, NEW)
        assert each.is_symlink()
        assert content_of(target) == NEW
    link.unlink()
    link.symlink_to(link)
    assert "symbolic links" in said(replace, link, NEW)


@posix
def test_what_is_no_file_is_refused_before_anything_is_written(path, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place, words in (
        (os.devnull, "Not a regular file: '/dev/null'"),
        (tmp_path / "pipe", "Not a regular file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "none" / "x", "Its folder does not exist"),
        (path / "x", "Not a directory"),
        ("a\0b", "has no NUL character"),
    ):
        assert words in said(destination, place)
        assert words in said(replace, place, NEW)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_what_may_not_be_or_cannot_be_written_changes_nothing(path, monkeypatch):
    assert "surrogates not allowed" in said(replace, path, "\ud800")
    for data in 5, map(bytes, [[1], "x"]):  # of the second, a part is written before
        assert said(replace, path, data).startswith("TypeError")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert said(replace, path, NEW).startswith("PermissionError")
    assert content_of(path) == OLD


# -- locked -----------------------------------------------------------------------------------------------------------


def taken(path, seconds=0):
    """What is said to somebody who wants the lock of a file; empty if he has held it."""

    def hold():
        with locked(path, seconds):
            pass

    return said(hold)


def test_a_lock_keeps_others_out_and_leaves_nothing(path):
    with locked(path):  # held by this thread itself
        words = f"TimeoutError: [Errno {errno.ETIMEDOUT}] Another program has held its lock for 0 seconds: "
        assert taken(path) == f"{words}{str(path)!r}"
        assert not taken(path.with_name("other"))
    with pytest.raises(KeyError), locked(path, 0):
        raise KeyError
    assert not taken(path)


def test_in_a_browser_where_nobody_else_is_there_is_no_lock(path, monkeypatch):
    monkeypatch.setattr(files, "IN_BROWSER", True)
    monkeypatch.setitem(sys.modules, "fcntl", ModuleType("fcntl"))  # an empty one, as JupyterLite has it
    with locked(path):
        replace(path, NEW)
        assert os.listdir(path.parent) == [path.name]


@posix
def test_two_names_of_one_file_have_one_lock(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    with locked(path):
        assert taken(tmp_path / "link").startswith("TimeoutError")


HOLDS = """
import os, signal, sys
from minikv.files import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free(path):
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline().strip() == b"held"
        assert taken(path).startswith("TimeoutError")
        holder.kill()
        holder.wait()
    assert not taken(path, 5)


@posix
def test_a_file_system_without_locks_is_used_without_and_another_failure_is_an_error(path, tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", fails(errno.ENOLCK))
    with locked(path, 0):
        assert not taken(path)
    monkeypatch.setattr(fcntl, "flock", fails(errno.EIO))
    assert taken(tmp_path / "x").endswith(f"Input/output error: {str(tmp_path / 'x')!r}")


@posix
@pytest.mark.parametrize("made_again", [True, False])
def test_a_lock_file_that_its_last_owner_has_removed_does_not_count(made_again, path, monkeypatch):
    """Between opening and locking, the file is removed, and another process may make and lock a new one."""
    flock, lock = fcntl.flock, path.with_name("notes.txt.lock")
    other = []

    def late(file, how):
        if not other:
            lock.unlink()
            other.append(lock.open("ab") if made_again else file)
            flock(other[0], how)
        return flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    if made_again:
        assert taken(path).startswith("TimeoutError")
        other[0].close()
    with locked(path, 5):
        assert taken(path).startswith("TimeoutError")


def test_a_file_that_cannot_be_locked_is_named_as_it_was_given(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    assert taken("nofolder/x") == "FileNotFoundError: [Errno 2] Its folder does not exist: 'nofolder/x'"
    assert taken(path / "x").endswith(f": {str(path / 'x')!r}")


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b" \n", b"{}", b"\xef\xbb\xbf{}"], ids=repr)
def test_nothing_in_a_file_is_an_empty_object(content, path):
    path.write_bytes(content)
    assert read_object(path) == {}


@pytest.mark.parametrize("content", [b'{"1.1": "x",}', b"[1]"])
def test_what_is_no_json_object_is_one_line(content, path):
    path.write_bytes(content)
    assert re.match(r"ValueError: '?.*notes\.txt' (is|holds) .*$", said(read_object, path))


# -- who writes -------------------------------------------------------------------------------------------------------

# What writes, renames or truncates a file, whoever has it; `open` is looked at by its mode.
WRITERS = (
    r"os\.(replace|truncate)|shutil\.(copy.*|move)|file\.truncate|sqlite3\.connect|"
    r"(?!ast\.).*\.(write_text|write_bytes|savefig|savez?|save_file|tofile|dump|renames?)"
)
IN_MEMORY = "small[0].save(out, ", "small.save(drawn, "
SOURCES = [*(ROOT / "minikv").rglob("*.py"), ROOT / "notebooks" / "build.py", *(ROOT / "assets").rglob("*.py")]


def writes(call):
    """Whether this call writes a file or opens one for writing, as far as its text says."""
    function = ast.unparse(call.func)
    if function.rpartition(".")[2] != "open":
        return re.fullmatch(WRITERS, function) and not ast.unparse(call).startswith(IN_MEMORY)
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    modes = [ast.unparse(argument).strip("'") for argument in given if not isinstance(argument, ast.Name)]
    if "os.devnull" in modes:
        return False
    return any(re.fullmatch(r"[rbt]*[wxa+][rwxabt+]*|.*\bO_(RDWR|WR\w+)\b.*", mode) for mode in modes)


def test_only_one_module_writes_files():
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in SOURCES}
    calls = [(name, node) for name in trees for node in ast.walk(trees[name]) if isinstance(node, ast.Call)]
    assert {name for name, call in calls if writes(call)} == {
        "minikv/files.py",
        "minikv/course/pictures/svg.py",  # into memory alone
        "minikv/cli/lab.py",  # JupyterLab writes its own workspace
        "assets/readme/pictures.py",  # into memory alone
        "assets/wheel.py",  # into a folder of its own, where nothing of the package can be imported yet
    }


def test_a_file_is_set_aside_over_no_link_even_if_its_target_is_gone(tmp_path):
    path, link = tmp_path / "a.json", tmp_path / "a.json.bad"
    path.write_text("{")
    link.symlink_to("gone")
    assert files.set_aside(path).name == "a.json.bad.2"
    assert link.is_symlink()
