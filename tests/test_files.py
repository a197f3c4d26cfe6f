"""Files survive faults at every step of a write, and other processes beside it; and only one module writes files."""

from __future__ import annotations

import ast
import errno
import os
import re
import stat
import subprocess
import sys
import threading

import pytest
from chapters import ROOT
from faults import at_line, fails

from minikv import files
from minikv.files import append, destination, locked, read_object, replace, set_aside

fcntl = pytest.importorskip("fcntl") if os.name == "posix" else None
posix = pytest.mark.skipif(os.name != "posix", reason="as POSIX has it")
OLD, NEW = "old\n", "new and longer\n"


@pytest.fixture
def path(tmp_path):
    """A file with the old content, alone in its folder."""
    path = tmp_path / "folder" / "notes.txt"
    path.parent.mkdir()
    path.write_text(OLD, "utf-8")
    return path


def content_of(path):
    return path.read_text("utf-8") if path.exists() else None


# -- replace ----------------------------------------------------------------------------------------------------------


def test_text_is_written_as_it_is_and_bytes_too(path):
    replace(path, "ä\r\nb\n")
    assert path.read_bytes() == "ä\r\nb\n".encode()
    replace(str(path), b"\xff\x00")
    assert path.read_bytes() == b"\xff\x00"
    assert os.listdir(path.parent) == ["notes.txt"]


def test_parts_are_written_one_by_one_and_an_error_between_them_leaves_the_old_content(path):
    replace(path, (bytes([number]) for number in range(3)))
    assert path.read_bytes() == b"\0\1\2"

    def parts():
        yield b"new"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        replace(path, parts())
    assert path.read_bytes() == b"\0\1\2"
    assert os.listdir(path.parent) == ["notes.txt"]


@pytest.mark.parametrize("old", [OLD, None])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
def test_an_error_at_any_line_leaves_the_old_or_the_new_content_and_nothing_else(error, old, path):
    def act():
        raise error

    with at_line(0, act) as lines:
        replace(path, NEW)
    assert len(lines) > 20
    for n in range(1, len(lines) + 1):
        path.unlink()
        if old is not None:
            path.write_text(old, "utf-8")
        raised = None
        with at_line(n, act):
            try:
                replace(path, NEW)
            except (OSError, KeyboardInterrupt, MemoryError) as caught:
                raised = caught
        found = content_of(path)
        assert found == NEW if raised is None else found in (old, NEW), n
        assert os.listdir(path.parent) == ([] if found is None else ["notes.txt"]), n
        path.touch()


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_system_call_that_fails_is_an_error_about_the_file_and_changes_nothing(step, path, monkeypatch):
    if step == "open":
        monkeypatch.setattr(files, "open", fails(errno.EIO), raising=False)
    else:
        monkeypatch.setattr(os, step, fails(errno.EIO))
    with pytest.raises(OSError, match=r"notes\.txt'$") as caught:
        replace(path, NEW)
    assert caught.value.errno == errno.EIO
    monkeypatch.undo()
    assert content_of(path) == OLD
    assert os.listdir(path.parent) == ["notes.txt"]


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
    code = KILLED.format(tests=str(ROOT / "tests"), path=str(path), old=OLD, new=NEW)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    killed, *left = run.stdout.split()
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
    command = [sys.executable, "-B", "-c", LIMITED, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == f"[Errno {errno.EFBIG}] File too large: {str(path)!r}\n"
    assert content_of(path) == OLD
    assert os.listdir(path.parent) == ["notes.txt"]


@posix
def test_the_mode_stays_and_a_new_file_has_the_usual_one(path):
    path.chmod(0o640)
    replace(path, NEW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        replace(path.with_name("other"), NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.with_name("other").stat().st_mode) == 0o640


@posix
def test_a_link_stays_a_link_to_the_new_content(path, tmp_path):
    link, dangling = tmp_path / "link", tmp_path / "dangling"
    link.symlink_to(path)
    dangling.symlink_to(path.with_name("later"))
    replace(link, NEW)
    replace(dangling, NEW)
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert content_of(path) == content_of(path.with_name("later")) == NEW
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(OSError, match="symbolic links"):
        replace(link, NEW)


@posix
def test_what_is_no_file_is_refused_before_anything_is_written(path, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place, words in (
        (os.devnull, "Not a regular file: '/dev/null'"),
        (tmp_path / "pipe", "Not a regular file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "none" / "x", "Its folder does not exist"),
        (path / "x", "Not a directory"),
    ):
        for act in (destination, lambda place: replace(place, NEW)):
            with pytest.raises(OSError, match=words):
                act(place)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_file_that_may_not_be_written_is_not_replaced(path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=r"notes\.txt"):
        replace(path, NEW)
    assert content_of(path) == OLD


def test_data_and_names_that_cannot_be_written_change_nothing(path):
    with pytest.raises(ValueError, match="surrogates not allowed"):
        replace(path, "\ud800")
    with pytest.raises(TypeError):
        replace(path, 5)
    with pytest.raises(ValueError, match="has no NUL character"):
        replace("a\0b", NEW)
    assert content_of(path) == OLD
    assert os.listdir(path.parent) == ["notes.txt"]


# -- append -----------------------------------------------------------------------------------------------------------


def test_what_is_appended_stands_behind_the_old_content_and_is_on_the_disk(path, monkeypatch):
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    append(path, "\u00e4\r\n")
    append(str(path), "b")
    assert path.read_bytes() == OLD.encode() + "\u00e4\r\nb".encode()
    assert sizes == [len(OLD) + 4, len(OLD) + 5]
    assert os.listdir(path.parent) == ["notes.txt"]


def test_an_interrupt_at_any_line_of_an_append_leaves_all_that_was_there(path):
    def act():
        raise KeyboardInterrupt

    with at_line(0, act) as lines:
        append(path, NEW)
    found = set()
    for n in range(1, len(lines) + 1):
        path.write_text(OLD, "utf-8")
        with pytest.raises(KeyboardInterrupt), at_line(n, act):
            append(path, NEW)
        found.add(content_of(path))
    assert found <= {OLD, OLD + NEW}
    assert OLD in found


@posix
def test_an_append_that_the_system_stops_half_way_leaves_the_old_content(path):
    command = [sys.executable, "-B", "-c", LIMITED.replace("replace", "append"), str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == f"[Errno {errno.ENOSPC}] No space left on device: {str(path)!r}\n"
    assert content_of(path) == OLD


def test_an_append_that_does_not_reach_the_disk_is_taken_back_and_a_file_that_is_gone_stays_so(path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fails(errno.EIO))
    with pytest.raises(OSError, match=r"Input/output error: .*notes\.txt'$"):
        append(path, NEW)
    assert content_of(path) == OLD
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"notes\.txt"):
        append(path, NEW)
    assert os.listdir(path.parent) == []


# -- locked -----------------------------------------------------------------------------------------------------------


def test_a_lock_keeps_others_out_and_leaves_nothing(path):
    held = r"Another program has held its lock for 0 seconds: .*notes\.txt'$"  # by this thread itself
    with locked(path), pytest.raises(TimeoutError, match=held), locked(path, 0):
        pytest.fail("two hold it")
    with pytest.raises(KeyError), locked(path, 0):
        raise KeyError
    with locked(path, 0), locked(path.with_name("other"), 0):
        pass
    assert os.listdir(path.parent) == ["notes.txt"]


@posix
def test_two_names_of_one_file_have_one_lock(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    with locked(path), pytest.raises(TimeoutError), locked(tmp_path / "link", 0):
        pytest.fail("two hold it")


def test_no_thread_loses_what_another_one_wrote(path):
    path.write_text("0", "utf-8")

    def count():
        for _ in range(25):
            with locked(path, 60):
                replace(path, str(int(path.read_text("utf-8")) + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert content_of(path) == "100"
    assert os.listdir(path.parent) == ["notes.txt"]


HOLDS = """
import os, signal, sys
from minikv.files import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_free(path):
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout.readline().strip() == b"held"
        with pytest.raises(TimeoutError), locked(path, 0):
            pytest.fail("two hold it")
        run.kill()
        run.wait()
    with locked(path, 5):
        assert os.path.exists(f"{path}.lock")
    assert os.listdir(path.parent) == ["notes.txt"]


@posix
def test_a_file_system_without_locks_is_used_without_and_another_failure_is_an_error(path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", fails(errno.ENOLCK))
    with locked(path, 0), locked(path, 0):
        replace(path, NEW)
    assert os.listdir(path.parent) == ["notes.txt"]
    monkeypatch.setattr(fcntl, "flock", fails(errno.EIO))
    with pytest.raises(OSError, match=f"Input/output error: '{path}'$"), locked(path, 0):
        pytest.fail("not locked")


@posix
def test_a_lock_file_that_its_last_owner_has_removed_does_not_count(path, monkeypatch):
    """Between opening and locking, the file is removed and another process makes and locks a new one."""
    flock, lock = fcntl.flock, path.with_name("notes.txt.lock")
    other = []

    def late(file, how):
        if not other:
            lock.unlink()
            other.append(lock.open("ab"))
            flock(other[0], how)
        return flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(TimeoutError), locked(path, 0):
        pytest.fail("two hold it")
    other[0].close()
    with locked(path, 0):
        pass


def test_a_file_that_cannot_be_locked_is_named_as_it_was_given(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    with pytest.raises(FileNotFoundError, match=r"Its folder does not exist: 'nofolder/x'$"), locked("nofolder/x"):
        pytest.fail("not locked")
    with pytest.raises((FileNotFoundError, NotADirectoryError)) as caught, locked(path / "x"):
        pytest.fail("not locked")
    assert caught.value.filename == str(path / "x")


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b" \n", b"{}", b"\xef\xbb\xbf{}"], ids=repr)
def test_nothing_in_a_file_is_an_empty_object(content, path):
    path.write_bytes(content)
    assert read_object(path) == {}


@pytest.mark.parametrize("content", [b'{"1.1": "x",}', b"[1]"])
def test_what_is_no_json_object_is_one_line(content, path):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"notes\.txt' (is|holds) "):
        read_object(path)


def test_what_is_set_aside_is_never_lost(path):
    kept = [set_aside(path)]
    path.write_text(NEW, "utf-8")
    kept.append(set_aside(path))
    assert [place.name for place in kept] == ["notes.txt.bad", "notes.txt.bad.2"]
    assert [content_of(place) for place in kept] == [OLD, NEW]


# -- everything that writes -------------------------------------------------------------------------------------------


def save_film(path):
    from minikv import FreeListPool, record

    pool = FreeListPool(2)
    with record(pool) as film:
        pool.alloc(1)
    film.save(path)


def save_figures(path):
    from figures import save_figures
    from test_bench_copy import figures

    save_figures(figures(1.0), str(path), "memcpy")


def save_notebook(path):
    import build

    build.build(path.with_suffix(".py"))


@pytest.mark.parametrize("save", [save_film, save_figures, save_notebook])
def test_every_writer_leaves_the_old_file_on_a_full_disk(save, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    import build

    for name, stub in (("HERE", tmp_path), ("assemble", lambda source: None), ("execute", lambda notebook: notebook)):
        monkeypatch.setattr(build, name, stub)
    monkeypatch.setattr(build, "clean", lambda notebook: build.nbformat.v4.new_notebook())
    path = tmp_path / "result.ipynb"
    save(path)
    before = path.read_bytes()
    assert before
    monkeypatch.setattr(os, "fsync", fails(errno.ENOSPC))
    with pytest.raises(OSError, match=r"No space left on device: .*result\.ipynb"):
        save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["result.ipynb"]


# What writes, renames or truncates a file, whoever has it; `open` is looked at by its mode.
WRITERS = (
    r"os\.(replace|truncate)|shutil\.(copy.*|move)|file\.truncate|"
    r"(?!ast\.).*\.(write_text|write_bytes|savefig|savez?|save_file|tofile|dump|renames?)"
)
IN_MEMORY = "small[0].save(out, ", "small.save(drawn, "
SOURCES = [*(ROOT / "minikv").rglob("*.py"), ROOT / "notebooks" / "build.py", *(ROOT / "assets").rglob("*.py")]


def writes(call):
    """Whether this call writes a file or opens one for writing, as far as its text says."""
    text, function = ast.unparse(call), ast.unparse(call.func)
    if function.rpartition(".")[2] != "open":
        return re.fullmatch(WRITERS, function) and not text.startswith(IN_MEMORY)
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    modes = [ast.unparse(argument).strip("'") for argument in given if not isinstance(argument, ast.Name)]
    if "os.devnull" in modes:
        return False
    return any(re.fullmatch(r"[rbt]*[wxa+][rwxabt+]*|.*\bO_(RDWR|WR\w+)\b.*", mode) for mode in modes)


KNOWN = ["open(path, 'w')", "open(path, mode='rb+')", "path.open('ab')", "os.open(path, os.O_RDONLY | os.O_WRONLY)",
         "Path(path).write_text(text)", "os.replace(one, two)", "file.truncate(0)",
         "json.dump(found, file)"]  # fmt: skip
OTHERS = ["open(path)", "open(path, 'rb')", "table.open(tab)", "text.replace(one, two)",
          "manager.truncate(sequence, 3)",
          "ast.dump(tree)", "json.dumps(found)"]  # fmt: skip


def test_the_search_for_writers_knows_one():
    assert [text for text in KNOWN + OTHERS if writes(ast.parse(text, mode="eval").body)] == KNOWN


def test_only_one_module_writes_files():
    found = set()
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            if isinstance(node, ast.Call) and writes(node):
                found.add(str(source.relative_to(ROOT).as_posix()))
    assert found == {
        "minikv/files.py",
        "minikv/course/pictures/svg.py",  # into memory alone
        "minikv/cli/lab.py",  # JupyterLab writes its own workspace
        "assets/readme/pictures.py",  # into memory alone
        "assets/wheel.py",  # into a folder of its own, where nothing of the package can be imported yet
    }
