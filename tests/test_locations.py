"""Paths in object storage: names as those of paths on a disk, objects against a real S3 server, with faults."""

from __future__ import annotations

import io
import json
import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from commands import verism as command
from PIL import Image
from storage import KEY, SECRET, s3_server

import verism
from verism.cli.faults import explain
from verism.errors import UsageError
from verism.files import open_regular, read_rows, read_text, whole_file, write_csv, write_new, write_whole
from verism.imaging import read_image
from verism.limits import IMAGE_BYTES, Limit
from verism.locations import RemotePath, beside, is_file, is_remote, location, names_in, remove_tree
from verism.store import Run

GOOGLE_NAMES = ("client_email", "private_key", "private_key_id")


@pytest.fixture
def s3(monkeypatch):
    with s3_server(monkeypatch) as server:
        yield server


# --------------------------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize(
    "text", ["s3://bucket", "s3://bucket/a", "gs://bucket/a/b.tar.gz", "az://account/container/x/y.csv"]
)
def test_location_of_a_url_is_written_as_it_was_given(text):
    path = location(text)
    assert (str(path), is_remote(path), path.is_absolute()) == (text, True, True)
    assert location(path) is path
    assert pickle.loads(pickle.dumps(path)) == path


def test_location_names_are_taken_apart_as_those_of_paths():
    path = location("s3://bucket/runs/a/images/part-1.parquet")
    assert (path.name, path.stem, path.suffix) == ("part-1.parquet", "part-1", ".parquet")
    assert str(path.parent.parent) == "s3://bucket/runs/a"
    assert str(path.with_suffix(".csv")) == "s3://bucket/runs/a/images/part-1.csv"
    inside = path.relative_to(location("s3://bucket/runs"))
    assert (inside.as_posix(), inside.is_absolute()) == ("a/images/part-1.parquet", False)
    assert pickle.loads(pickle.dumps(inside)) == inside
    assert str(location("s3://bucket/runs") / inside) == str(path)
    assert path.resolve() == path.absolute() == path.expanduser() == path


def test_location_of_a_plain_path_or_a_file_url_is_a_path_of_this_machine(tmp_path):
    assert type(location("runs/a")) is type(Path())
    assert location(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert location(tmp_path) is tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://x/y", "s3://, gs://, az://"),
        ("ftp://x/y", "plain paths"),
        ("s3://", "s3://BUCKET"),
        ("az://account", "az://ACCOUNT/CONTAINER"),
    ],
)
def test_location_that_is_none_is_refused_with_what_there_is(text, message):
    with pytest.raises(UsageError, match=message):
        location(text)


def test_a_table_names_files_beside_it_or_by_url(tmp_path):
    assert beside(tmp_path, "a/b.png") == tmp_path / "a" / "b.png"
    assert str(beside(tmp_path, "s3://bucket/b.png")) == "s3://bucket/b.png"
    assert str(beside(location("s3://bucket/list"), "b.png")) == "s3://bucket/list/b.png"
    assert beside(location("s3://bucket/list"), str(tmp_path)) == tmp_path


def test_who_needs_a_file_of_this_machine_is_told_so():
    with pytest.raises(UsageError, match=r"s3://bucket/x.onnx lies in object storage"):
        Image.open(location("s3://bucket/x.onnx"))
    with pytest.raises(UsageError, match="written whole"):
        location("s3://bucket/x").open("a")


# ------------------------------------------------------------------------------------------------------------- objects
@pytest.mark.usefixtures("s3")
def test_objects_are_written_read_listed_and_removed():
    root = location("s3://bucket/a")
    assert not root.exists()
    for name in ("x.txt", "part-1.parquet", "part-2.parquet", "parts/part-3.parquet", "o/d/part-4.parquet", "z"):
        (root / name).write_bytes(name.encode())
    assert (root.exists(), root.is_dir(), root.is_file()) == (True, True, False)
    assert (root / "x.txt").read_text() == "x.txt"
    assert (root / "x.txt").stat().st_size == 5
    assert [p.name for p in root.iterdir()] == ["o", "part-1.parquet", "part-2.parquet", "parts", "x.txt", "z"]
    assert [p.is_dir() for p in root.iterdir()] == [True, False, False, True, False, False]
    names = {
        "part-*.parquet": ["part-1.parquet", "part-2.parquet"],
        "*/*/part-*.parquet": ["o/d/part-4.parquet"],
        "*/part-*": ["parts/part-3.parquet"],
        "o/*": ["o/d"],
        "parts/part-3.parquet": ["parts/part-3.parquet"],
        "?": ["o", "z"],
        "**/part-4*": ["o/d/part-4.parquet"],
    }
    assert {k: [p.relative_to(root).as_posix() for p in root.glob(k)] for k in names} == names
    assert len(list(root.rglob("part-*.parquet"))) == 4
    (root / "z").replace(root / "y")
    assert ((root / "z").exists(), (root / "y").read_bytes()) == (False, b"z")
    (root / "y").unlink()
    (root / "y").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        (root / "y").unlink()
    remove_tree(root)
    assert not root.exists()


def test_a_listing_does_not_cost_what_else_the_folder_holds(s3):
    folder = location("s3://bucket/images")
    for n in range(30):
        (folder / f"image-{n:02}.png").write_bytes(b"x")
    for name in ("part-1.parquet", "part-2.parquet", "z.png"):
        (folder / name).write_bytes(b"x")
    s3.requests.clear()
    assert [p.name for p in folder.glob("part-*.parquet")] == ["part-1.parquet", "part-2.parquet"]
    assert [p.stat().st_size for p in folder.glob("part-*.parquet")] == [1, 1]  # known from the listing
    assert [method for method, _ in s3.requests] == ["GET", "GET"]


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize("remote", [False, True])
def test_names_in_a_folder_are_those_that_lie_directly_in_it(remote, tmp_path):
    folder = location("s3://bucket/names") if remote else tmp_path / "names"
    assert list(names_in(folder)) == []
    for name in ("part-a.parquet", "part-b.parquet", "other.png", "below/part-c.parquet"):
        write_whole(folder / name, b"x")
    assert sorted(names_in(folder)) == ["below", "other.png", "part-a.parquet", "part-b.parquet"]
    assert sorted(names_in(folder, "part-")) == ["part-a.parquet", "part-b.parquet"]
    assert list(names_in(folder / "other.png")) == []


@pytest.mark.usefixtures("s3")
def test_what_is_not_there_is_missing_by_name():
    path = location("s3://bucket/none.txt")
    assert (path.exists(), is_file(path), is_file(location("s3://nobody/x"))) == (False, False, False)
    with pytest.raises(FileNotFoundError) as caught:
        path.read_bytes()
    assert caught.value.filename == str(path)
    with pytest.raises(UsageError, match=r"s3://bucket/none.txt: no such file"):
        read_text(path)


@pytest.mark.usefixtures("s3")
def test_files_are_written_and_read_through_the_one_module_for_files(tmp_path):
    table = location("s3://bucket/t.csv")
    write_csv(table, ["prompt", "n"], [["=1+1", 2]])
    assert [dict(row) for row in read_rows(table, "a table")] == [{"prompt": "=1+1", "n": "2"}]
    with whole_file(location("s3://bucket/x.bin")) as filled:
        filled.write_bytes(b"whole")
        assert not location("s3://bucket/x.bin").exists()
    assert location("s3://bucket/x.bin").read_bytes() == b"whole"
    with pytest.raises(FileNotFoundError), whole_file(location("s3://bucket/y.bin")):
        (tmp_path / "none").read_bytes()
    assert not location("s3://bucket/y.bin").exists()
    png = io.BytesIO()
    Image.fromarray(np.full((8, 9, 3), 7, np.uint8)).save(png, "png")
    write_whole(location("s3://bucket/a.png"), png.getvalue())
    assert read_image(location("s3://bucket/a.png")).pixels.shape == (8, 9, 3)


@pytest.mark.usefixtures("s3")
def test_an_object_that_is_too_large_is_not_fetched():
    path = location("s3://bucket/large")
    path.write_bytes(bytes(1000))
    limit = Limit(name="file_bytes", default=999, unit="bytes", meaning="size of a file")
    with pytest.raises(OSError, match="1,000 bytes"), open_regular(path, limit):
        pass
    with open_regular(path, IMAGE_BYTES) as file:
        assert len(file.read()) == 1000


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.usefixtures("s3")
def test_of_several_who_write_a_new_file_one_succeeds(remote, tmp_path):
    path = location("s3://bucket/new") if remote else tmp_path / "folder" / "new"
    assert write_new(path, b"first")
    assert not write_new(path, b"second")
    assert path.read_bytes() == b"first"
    assert [p.name for p in path.parent.iterdir()] == ["new"]


# -------------------------------------------------------------------------------------------------------------- faults
def test_requests_that_fail_for_a_passing_reason_are_repeated(s3):
    s3.fails = lambda number: number % 3 == 0
    for n in range(6):
        location(f"s3://bucket/{n}").write_bytes(b"x" * n)
    assert [location(f"s3://bucket/{n}").read_bytes() for n in range(6)] == [b"x" * n for n in range(6)]


def test_errors_name_the_object_and_say_what_to_do_without_secrets(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    from obstore.exceptions import GenericError, PermissionDeniedError

    from verism.locations import _errors

    for error, code in ((GenericError, 5), (PermissionDeniedError, 13)):
        with pytest.raises(OSError) as caught, _errors(RemotePath("s3:/bucket/x")):
            raise error(f"<Error><AWSAccessKeyId>{KEY}</AWSAccessKeyId> {SECRET} refused\n\nDebug source:\n{KEY}")
        assert caught.value.errno == code
        said = str(explain(caught.value))
        assert "s3://bucket/x" in said
        assert "refused" in said
        assert "credentials that the environment names" in said
        assert KEY not in said
        assert SECRET not in said


# ---------------------------------------------------------------------------------------------------------------- runs
def test_a_run_in_object_storage_is_as_one_on_a_disk(s3, tmp_path):
    """The same scores, nothing of the credentials in it, resumed, damaged, repaired; a fifth of all requests fail."""
    options = {"model": "scripted:error=0.3", "detector": "builtin", "limit": 6, "size": 64, "seed": 4}
    here = verism.evaluate("paintskills", out=tmp_path / "run", **options)
    s3.fails = lambda number: number % 5 == 4
    there = verism.evaluate("paintskills", out="s3://bucket/runs/one", **options)
    assert there.frame().equals(here.frame())
    assert there.read("images")["sha256"].to_list() == here.read("images")["sha256"].to_list()
    for file in location("s3://bucket/runs/one").rglob("*.json"):
        assert KEY not in file.read_text()
        assert SECRET not in file.read_text()
    s3.fails = lambda _: False

    s3.requests.clear()
    verism.evaluate("paintskills", out="s3://bucket/runs/one", **options)
    assert not [path for method, path in s3.requests if method == "PUT" and "images" in path]

    assert command("verify", "s3://bucket/runs/one").exit_code == 0
    image = next(iter(location("s3://bucket/runs/one/images").glob("*.png")))
    image.unlink()
    found = command("verify", "s3://bucket/runs/one", "--json")
    assert (found.exit_code, json.loads(found.stdout)["findings"][0]["problem"]) == (1, "missing")
    assert command("verify", "s3://bucket/runs/one", "--repair").exit_code == 0
    assert image.is_file()

    page = command("report", "s3://bucket/runs/one", "--out", tmp_path / "page.html")
    assert page.exit_code == 0, page.stderr
    compared = command("compare", "s3://bucket/runs/one", tmp_path / "run")
    assert compared.exit_code == 0, compared.stderr


@pytest.mark.parametrize(
    ("url", "asked"),
    [("az://account7/container/x/y.csv", "/account7/container/x/y.csv"), ("gs://bucket7/x/y.csv", "/bucket7/x/y.csv")],
)
def test_urls_of_other_services_name_the_object_that_is_asked_for(url, asked, monkeypatch, tmp_path):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = unquote(urlsplit(self.path).path) == asked
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", "5" if found else "0")
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Tue, 24 Nov 2026 12:00:00 GMT")
            self.end_headers()
            self.wfile.write(b"a,b\n\n" if found else b"")

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        account = {"gcs_base_url": endpoint, "disable_oauth": True, **dict.fromkeys(GOOGLE_NAMES, "")}
        (tmp_path / "account.json").write_text(json.dumps(account))
        for name, value in {
            "AZURE_STORAGE_ENDPOINT": f"{endpoint}/account7",
            "AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0",
            "AZURE_ALLOW_HTTP": "true",
            "GOOGLE_SERVICE_ACCOUNT": str(tmp_path / "account.json"),
            "GOOGLE_ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(name, value)
        assert location(url).read_bytes() == b"a,b\n\n"
        server.shutdown()


def test_a_killed_write_leaves_nothing_that_readers_take_for_whole(s3):
    """An answer that is lost after the object was written: the next try writes the same, or another name."""
    options = {"model": "scripted:error=0.3", "detector": "builtin", "limit": 3, "size": 64, "seed": 4}
    s3.drops = lambda number: number % 4 == 3
    run = verism.evaluate("paintskills", out="s3://bucket/run", **options)
    s3.drops = lambda _: False
    assert verism.verify(run).is_whole
    assert run.read("images").height == 3


@pytest.mark.usefixtures("s3")
def test_images_of_a_user_may_lie_in_object_storage(tmp_path):
    made = verism.evaluate("paintskills", out=tmp_path / "made", model="oracle", detector="builtin", limit=4, size=64)
    rows = []
    for row in made.read("images").iter_rows(named=True):
        target = location(f"s3://bucket/mine/{row['prompt_id']}.png")
        target.write_bytes(made.resolve(row["path"]).read_bytes())
        rows.append([row["prompt_id"], f"{row['prompt_id']}.png"])
    write_csv(location("s3://bucket/mine/list.csv"), ["prompt_id", "file_path"], rows)
    for images in ("s3://bucket/mine", "s3://bucket/mine/list.csv"):
        run = verism.evaluate("paintskills", images=images, detector="builtin", limit=4, size=64, out=None)
        assert set(run.read("images")["state"]) == {"ok"}
        assert run.read("images")["sha256"].to_list() == made.read("images")["sha256"].to_list()
        path = run.read("images")["path"][0]
        assert path.startswith("s3://bucket/mine/")
        assert run.resolve(path).is_file()


@pytest.mark.usefixtures("s3")
def test_a_run_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match=r"s3://bucket/none is not a run directory"):
        Run.open("s3://bucket/none")
    location("s3://bucket/else/notes.txt").write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"s3://bucket/else exists and is not a run directory"):
        verism.evaluate("paintskills", model="oracle", detector="builtin", limit=1, out="s3://bucket/else")
