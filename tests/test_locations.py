"""Paths in object storage: names as those of paths on a disk, objects on servers (``storage``), with faults."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import obstore
import pytest
from commands import verism as command
from PIL import Image
from storage import KEY, SECRET, SERVICES, storage_server

import verism
from verism.cli.faults import explain
from verism.errors import UsageError
from verism.files import open_regular, read_rows, read_text, whole_file, write_csv, write_new, write_whole
from verism.imaging import read_image
from verism.limits import IMAGE_BYTES, Limit
from verism.locations import RemotePath, beside, folders_with, is_file, is_remote, location, names_in, remove_tree
from verism.store import Run


@pytest.fixture(params=SERVICES)
def store(request, monkeypatch, tmp_path_factory):
    with storage_server(request.param, monkeypatch, tmp_path_factory.mktemp("account")) as server:
        yield server


@pytest.fixture(params=["disk", *SERVICES])
def anywhere(request, monkeypatch, tmp_path):
    """A folder that is not there yet, on a disk or in object storage."""
    if request.param == "disk":
        yield tmp_path / "folder"
        return
    with storage_server(request.param, monkeypatch, tmp_path) as server:
        yield location(f"{server.root}/folder")


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
        ("s3:/bucket/a", "write s3://bucket/a; for a folder of this name, ./s3:/bucket/a"),
        ("file:/tmp/a", "write file:///tmp/a"),
        ("file://tmp/a", "the machine 'tmp'; a file of this one has three slashes: file:///tmp/a"),
    ],
)
def test_location_that_is_none_is_refused_with_what_there_is(text, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        location(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://AKIAEXAMPLE:verysecret@bucket/a", "s3://bucket/a: this URL was given with credentials"),
        ("gs://verysecret@bucket/a", "gs://bucket/a: this URL was given with credentials"),
        ("az://account/c/a.csv?sv=2024&sig=verysecret", "az://account/c/a.csv: this URL was given with credentials"),
        ("s3://bucket/a?X-Amz-Signature=verysecret", "leave them out, and set AWS_ACCESS_KEY_ID"),
        ("https://user:verysecret@host/a?sig=verysecret", "https://host/a: files are read from"),
    ],
)
def test_a_url_with_credentials_is_refused_without_repeating_them(text, shown):
    with pytest.raises(UsageError, match=re.escape(shown)) as caught:
        location(text)
    assert "verysecret" not in str(caught.value)


def test_names_that_look_like_credentials_and_are_none_are_names():
    for text in ("s3://bucket/a@b.png", "s3://bucket/what?.png", "s3://bucket/a?page=2"):
        assert str(location(text)) == text
    assert location("file://localhost/a/b") == Path("/a/b")


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
@pytest.mark.parametrize("size", [0, 9, 12 << 20])
def test_a_file_is_sent_from_the_disk_and_seen_whole_under_the_name_it_gets_at_the_end(size, store, monkeypatch):
    content, sent, put = np.random.default_rng(0).bytes(size), [], obstore.put

    def record(to, key, data, **how):
        sent.append(data)
        return put(to, key, data, **how)

    monkeypatch.setattr(obstore, "put", record)
    path = location(f"{store.root}/a/shard.tar")
    with whole_file(path, name=lambda: f"{hashlib.sha256(content).hexdigest()}.tar") as filled:
        filled.write_bytes(content)
        assert list(path.parent.iterdir()) == []
    assert sent == [filled]  # which is read in pieces of some megabytes
    (kept,) = path.parent.iterdir()
    assert kept.name == f"{hashlib.sha256(content).hexdigest()}.tar"
    assert kept.read_bytes() == content


def test_objects_are_written_read_listed_and_removed(store):
    root = location(f"{store.root}/a")
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
        "part-1.parquet*": ["part-1.parquet"],
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


def test_a_listing_does_not_cost_what_else_the_folder_holds(store):
    folder = location(f"{store.root}/images")
    for n in range(30):
        (folder / f"image-{n:02}.png").write_bytes(b"x")
    for name in ("part-1.parquet", "part-2.parquet", "z.png"):
        (folder / name).write_bytes(b"x")
    store.requests.clear()
    assert [p.name for p in folder.glob("part-*.parquet")] == ["part-1.parquet", "part-2.parquet"]
    assert [p.stat().st_size for p in folder.glob("part-*.parquet")] == [1, 1]  # known from the listing
    assert [method for method, _ in store.requests] == ["GET", "GET"]


def test_names_in_a_folder_are_those_that_lie_directly_in_it(anywhere):
    folder = anywhere
    assert list(names_in(folder)) == []
    for name in ("part-a.parquet", "part-b.parquet", "other.png", "below/part-c.parquet"):
        write_whole(folder / name, b"x")
    assert sorted(names_in(folder)) == ["below", "other.png", "part-a.parquet", "part-b.parquet"]
    assert sorted(names_in(folder, "part-")) == ["part-a.parquet", "part-b.parquet"]
    assert list(names_in(folder / "other.png")) == []


def test_what_is_not_there_is_missing_by_name(store):
    path = location(f"{store.root}/none.txt")
    assert (path.exists(), is_file(path), is_file(location(f"{store.root}-none/x"))) == (False, False, False)
    with pytest.raises(FileNotFoundError) as caught:
        path.read_bytes()
    assert caught.value.filename == str(path)
    with pytest.raises(UsageError, match=rf"{store.root}/none.txt: no such file"):
        read_text(path)


def test_files_are_written_and_read_through_the_one_module_for_files(store, tmp_path):
    table = location(f"{store.root}/t.csv")
    write_csv(table, ["prompt", "n"], [["=1+1", 2]])
    assert [dict(row) for row in read_rows(table, "a table")] == [{"prompt": "=1+1", "n": "2"}]
    with whole_file(location(f"{store.root}/x.bin")) as filled:
        filled.write_bytes(b"whole")
        assert not location(f"{store.root}/x.bin").exists()
    assert location(f"{store.root}/x.bin").read_bytes() == b"whole"
    with pytest.raises(FileNotFoundError), whole_file(location(f"{store.root}/y.bin")):
        (tmp_path / "none").read_bytes()
    assert not location(f"{store.root}/y.bin").exists()
    png = io.BytesIO()
    Image.fromarray(np.full((8, 9, 3), 7, np.uint8)).save(png, "png")
    write_whole(location(f"{store.root}/a.png"), png.getvalue())
    assert read_image(location(f"{store.root}/a.png")).pixels.shape == (8, 9, 3)


def test_an_object_that_is_too_large_is_not_fetched(store):
    path = location(f"{store.root}/large")
    path.write_bytes(bytes(1000))
    limit = Limit(name="file_bytes", default=999, unit="bytes", meaning="size of a file")
    with pytest.raises(OSError, match="1,000 bytes"), open_regular(path, limit):
        pass
    with open_regular(path, IMAGE_BYTES) as file:
        assert len(file.read()) == 1000


def test_of_several_who_write_a_new_file_one_succeeds(anywhere):
    path = anywhere / "new"
    assert write_new(path, b"first")
    assert not write_new(path, b"second")
    assert path.read_bytes() == b"first"
    assert [p.name for p in path.parent.iterdir()] == ["new"]


# -------------------------------------------------------------------------------------------------------------- faults
def test_requests_that_fail_for_a_passing_reason_are_repeated(store):
    store.fails = lambda number: number % 3 == 0
    for n in range(6):
        location(f"{store.root}/{n}").write_bytes(b"x" * n)
    assert [location(f"{store.root}/{n}").read_bytes() for n in range(6)] == [b"x" * n for n in range(6)]


def test_connections_that_break_are_made_again(store):
    store.cuts = lambda number: number % 3 == 0
    for n in range(6):
        location(f"{store.root}/{n}").write_bytes(b"x" * n)
    assert [location(f"{store.root}/{n}").read_bytes() for n in range(6)] == [b"x" * n for n in range(6)]


@pytest.mark.parametrize("store", ["gs"], indirect=True)
def test_an_object_that_may_be_written_once_a_second_is_waited_for(store, monkeypatch):
    from obstore import store as obstores

    monkeypatch.setattr(obstores, "from_url", obstores.from_url.func)  # with the pauses that users have
    store.google.once_a_second = True
    path = location(f"{store.root}/scoring.json")
    for n in range(3):
        path.write_bytes(b"x" * n)
    assert path.read_bytes() == b"xx"
    assert [method for method, _ in store.requests].count("PUT") > 3


@pytest.mark.parametrize("store", ["gs"], indirect=True)
def test_an_account_that_may_not_ask_is_refused_without_its_secrets(store):
    store.google.client = "someone-else"
    with pytest.raises(PermissionError, match="not permitted") as caught:
        location(f"{store.root}/x").read_bytes()
    assert not any(secret in str(explain(caught.value)) for secret in store.secrets)


@pytest.mark.parametrize("store", ["s3", "az"], indirect=True)
def test_a_bucket_that_is_not_there_is_named(store):
    run, name = f"{store.root}-none/runs/a", re.escape(store.root.split("://")[1] + "-none")
    model = ("paintskills", "--model", "scripted", "--detector", "truth", "--limit", "3")
    for words in (("score", run), ("run", *model, "--out", run)):
        with pytest.raises(UsageError, match=rf"there is no bucket or container '{name}'; create it or correct"):
            command(*words)
    with pytest.raises(UsageError, match=r"runs/a is not a run directory: there is nothing of this name"):
        command("score", f"{store.root}/runs/a")


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


@pytest.mark.parametrize(
    ("url", "said", "advice"),
    [
        (
            "s3://bucket/x",
            "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1.2ms - Server returned "
            "non-2xx status code: 403 Forbidden: denied",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (those of a profile: ",
        ),
        (
            "gs://bucket/x",
            "Generic GCS error: Error performing token request: Error performing GET "
            "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token?audience=x in "
            "3.1s, after 10 retries, max_retries: 10, retry_timeout: 180s  - HTTP error: error sending request",
            "set GOOGLE_APPLICATION_CREDENTIALS to their file",
        ),
        (
            "az://account/container/x",
            "Generic MicrosoftAzure error: Error performing token request: Error performing GET "
            "http://169.254.169.254/metadata/identity/oauth2/token?resource=x in 9ms - Server returned non-2xx status "
            "code: 400 Bad Request: ",
            "set AZURE_STORAGE_ACCOUNT_KEY",
        ),
    ],
)
def test_who_has_no_credentials_is_told_so_first_and_how_to_give_them(url, said, advice):
    from obstore.exceptions import GenericError

    from verism.locations import _errors

    with pytest.raises(UsageError) as caught, _errors(location(url)):
        raise GenericError(said)
    assert str(caught.value).startswith(f"{url}: no credentials were found: {advice}")
    assert "_SKIP_SIGNATURE=true" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "Generic S3 error: Error performing HEAD http://me:verysecret@127.0.0.1:9/b/x?sig=verysecret in 4.8s, "
            "after 10 retries, max_retries: 10, retry_timeout: 180s  - HTTP error: error sending request",
            "the server cannot be reached (HEAD http://127.0.0.1:9/b/x, after 10 retries)",
        ),
        (
            "Generic S3 error: Error performing HEAD http://127.0.0.1:9/b/x in 210.3µs - HTTP error: builder error",
            "a server without TLS is used only with AWS_ALLOW_HTTP=true (HEAD http://127.0.0.1:9/b/x)",
        ),
        (
            "Generic S3 error: Error performing PUT https://h/b/x in 1ms - Server returned non-2xx status code: 400 "
            "Bad Request: <?xml version='1.0'?>\n<Error><Code>Odd</Code><Message>It is odd</Message><Id>1</Id></Error>",
            "400 Bad Request: Odd: It is odd (PUT https://h/b/x)",
        ),
    ],
)
def test_what_a_server_says_is_told_plainly(said, shown):
    from obstore.exceptions import GenericError

    from verism.locations import _errors

    with pytest.raises(OSError) as caught, _errors(location("s3://b/x")):
        raise GenericError(said)
    assert caught.value.strerror == shown


def test_an_endpoint_that_is_no_url_is_refused(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    with pytest.raises(UsageError, match=r"AWS_ENDPOINT_URL is 'localhost:9000'; write http:// or https:// before it"):
        location("s3://no-client-yet/x").exists()


@pytest.mark.parametrize("name", ["a/../b", "a/b\tc"])
def test_names_that_no_object_can_have_are_refused_in_words(store, name):
    path = location(f"{store.root}/{name}")
    assert not is_file(path)
    with pytest.raises(OSError) as caught:
        path.write_bytes(b"x")
    assert "no object can have a name" in str(explain(caught.value))


def test_a_file_that_nobody_can_be_asked_about_is_not_said_to_be_missing(monkeypatch):
    monkeypatch.setattr(RemotePath, "is_file", lambda _: (_ for _ in ()).throw(OSError(5, "no answer", "s3://b/x")))
    with pytest.raises(OSError, match="no answer"):
        is_file(location("s3://b/x"))


# ---------------------------------------------------------------------------------------------------------------- runs
# Runs, resumed and repaired, are tried on every service; what commands do with paths, on one of those that moto serves.
ON_S3 = pytest.mark.parametrize("store", ["s3", "az"], indirect=True)
ON_GS = pytest.mark.parametrize("store", ["gs", "az"], indirect=True)


def test_a_run_in_object_storage_is_as_one_on_a_disk(store, tmp_path):
    """The same scores, no credentials in it, grown, resumed, damaged, repaired; a fifth of all requests fail."""
    options = {"model": "scripted:error=0.3", "detector": "builtin", "size": 64, "seed": 4}
    here = verism.evaluate("paintskills", out=tmp_path / "run", limit=4, **options)
    store.fails = lambda number: number % 5 == 4
    out = f"{store.root}/runs/one"
    verism.evaluate("paintskills", out=out, limit=3, **options)
    there = verism.evaluate("paintskills", out=out, limit=4, **options)
    assert there.frame().equals(here.frame())
    assert there.read("images")["sha256"].to_list() == here.read("images")["sha256"].to_list()
    for file in location(out).rglob("*.json"):
        assert [secret for secret in store.secrets if secret in file.read_text()] == []
    store.fails = lambda _: False

    store.requests.clear()
    verism.evaluate("paintskills", out=out, limit=4, **options)
    assert not [path for method, path in store.requests if method == "PUT" and "images" in path]

    assert command("verify", out).exit_code == 0
    image = next(iter(location(f"{out}/images").glob("*.png")))
    image.unlink()
    found = command("verify", out, "--json")
    assert (found.exit_code, json.loads(found.stdout)["findings"][0]["problem"]) == (1, "missing")
    assert command("verify", out, "--repair").exit_code == 0
    assert image.is_file()

    compared = command("compare", out, tmp_path / "run")
    assert compared.exit_code == 0, compared.stderr


def test_urls_of_azure_name_the_object_that_is_asked_for(monkeypatch):
    """Also where there is no Azurite: account and container in the URL, and nothing of them in the name."""
    asked = "/account7/container/x/y.csv"

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
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{server.server_port}/account7")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
        monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
        assert location("az://account7/container/x/y.csv").read_bytes() == b"a,b\n\n"
        server.shutdown()


def test_a_killed_write_leaves_nothing_that_readers_take_for_whole(store):
    """An answer that is lost after the object was written: the next try writes the same, or another name."""
    options = {"model": "scripted:error=0.3", "detector": "builtin", "limit": 2, "size": 64, "seed": 4}
    store.drops = lambda number: number % 4 == 3
    run = verism.evaluate("paintskills", out=f"{store.root}/run", **options)
    store.drops = lambda _: False
    assert verism.verify(run).is_whole
    assert run.read("images").height == 2


@ON_GS
def test_images_of_a_user_may_lie_in_object_storage(store, tmp_path):
    made = verism.evaluate("paintskills", out=tmp_path / "made", model="oracle", detector="builtin", limit=2, size=64)
    rows = []
    for row in made.read("images").iter_rows(named=True):
        target = location(f"{store.root}/mine/{row['prompt_id']}.png")
        target.write_bytes(made.resolve(row["path"]).read_bytes())
        rows.append([row["prompt_id"], f"{row['prompt_id']}.png"])
    write_csv(location(f"{store.root}/mine/list.csv"), ["prompt_id", "file_path"], rows)
    for images in (f"{store.root}/mine", f"{store.root}/mine/list.csv"):
        run = verism.evaluate("paintskills", images=images, detector="builtin", limit=2, size=64, out=None)
        assert set(run.read("images")["state"]) == {"ok"}
        assert run.read("images")["sha256"].to_list() == made.read("images")["sha256"].to_list()
        path = run.read("images")["path"][0]
        assert path.startswith(f"{store.root}/mine/")
        assert run.resolve(path).is_file()


@ON_S3
def test_an_image_that_the_storage_does_not_hand_out_stops_the_run_and_is_not_scored_as_failed(store, tmp_path):
    asked = ("paintskills", "--limit", 3, "--size", 64)
    made = verism.evaluate("paintskills", out=tmp_path / "made", model="oracle", detector="truth", limit=3, size=64)
    for row in made.read("images").iter_rows(named=True):
        location(f"{store.root}/mine/{row['prompt_id']}.png").write_bytes(made.image_bytes(row))
    last = row["prompt_id"]
    store.status = "403 Forbidden"
    store.fails = lambda _: f"mine/{last}" in store.requests[-1][1]
    words = ("run", *asked, "--images", f"{store.root}/mine", "--detector", "builtin", "--out", tmp_path / "run")
    with pytest.raises(PermissionError, match="not permitted: 403 Forbidden"):
        command(*words)
    store.fails = lambda _: False
    assert command(*words).exit_code == 0
    assert Run.open(tmp_path / "run").read("images")["state"].to_list() == ["ok"] * 3


@ON_GS
def test_commands_take_urls_for_what_they_read(store, tmp_path):
    """Paths that the command line makes of URLs, which are no text as in Python."""
    from importlib import resources

    from verism.generators.builtin import EDITIONS, FILES

    asked = ("paintskills", "--limit", 2, "--size", 64, "--detector", "truth")
    made = f"{store.root}/made"
    assert command("run", *asked, "--model", "oracle", "--out", made).exit_code == 0
    for number, out in enumerate((tmp_path / "run", f"{store.root}/again")):
        done = command("run", *asked[:5], "--detector", "builtin", "--images", made, "--out", out)
        assert done.exit_code == 0, done.stderr
        assert command("verify", out, "--repair").exit_code == 0
        for to in ("huggingface", "coco", "csv", "parquet") if number else ("csv",):
            done = command("export", out, "--to", to, tmp_path / f"{to}{number}")
            assert done.exit_code == 0, done.stderr
    data = Path(str(resources.files("verism.generators") / "data" / EDITIONS["iccv"]))
    for file in FILES:
        location(f"{store.root}/model/{file}").write_bytes((data / file).read_bytes())
    done = command("run", *asked, "--model", f"builtin:{store.root}/model", "--out", tmp_path / "own")
    assert done.exit_code == 0, done.stderr
    there, here = (read_text(tmp_path / f"csv{number}" / "verdicts.csv") for number in (1, 0))
    assert there == here != ""


@ON_S3
def test_boards_and_plans_take_urls_and_what_needs_a_disk_is_refused_before_it_begins(store, tmp_path):
    from verism.checkpoint_evaluation import CheckpointEvaluator
    from verism.judge_bench.bench import Truth

    plan = tmp_path / "plan.yaml"
    plan.write_text("models: {a: oracle}\nsuites: {paintskills: {limit: 2, detector: truth}}\ndefaults: {size: 64}\n")
    out = f"{store.root}/plan"
    assert command("plan", "run", plan, "--out", out).exit_code == 0
    checked = command("plan", "check", plan, "--out", out)
    assert (checked.exit_code, "free on the disk" in checked.stdout) == (0, False)
    (run,) = (path.parent for path in location(out).rglob("manifest.json"))
    assert command("report", run).exit_code == 0
    assert command("board", out).exit_code == 0
    link = f'{run.relative_to(location(out)).as_posix()}/report/index.html"'
    assert link in location(f"{out}/board.html").read_text()
    assert command("board", out, "--out", tmp_path / "board.html").exit_code == 0
    location(f"{store.root}/plan/plan.json").unlink(missing_ok=True)
    above = command("board", store.root, "--json")
    assert (above.exit_code, json.loads(above.stdout)["rows"][0]["runs"]) == (0, {"paintskills": str(run)})

    (run / "annotation" / "study.sqlite").write_bytes(b"of a run that was copied here")
    store.requests.clear()
    for words in (
        ("export", run, "--to", "csv", f"{store.root}/csv"),
        ("scenes", "render", "paintskills", "--limit", 2, "--out", f"{store.root}/scenes"),
        ("view", store.root, "--no-open"),
        ("annotate", run, "--task", "count", "--draw"),
        ("annotate", run, "--import", tmp_path / "answers.csv"),
        ("annotate", run, "--study", "other"),
        ("annotate", run, "--status"),
        ("annotate", run, "--plan"),
        ("agreement", run),
        ("score", run, "--correct", "human"),
        ("scenes", "sheet", "--out", f"{store.root}/sheet.png"),
        ("train", "detector", "--scenes", tmp_path, "--out", f"{store.root}/detector"),
        ("train", "generator", "--scenes", tmp_path, "--out", f"{store.root}/generator"),
        ("train", "generator", "--scenes", tmp_path, "--out", tmp_path / "g", "--cache", f"{store.root}/cache"),
        ("train", "skin-tone", "--out", f"{store.root}/skin"),
        ("list", "suites", "--log-file", f"{store.root}/log.txt"),
    ):
        with pytest.raises(UsageError, match=r"lies in object storage, and .* (disk|of this machine)"):
            command(*words)
    assert not [method for method, _ in store.requests if method in ("PUT", "POST")]
    assert str(CheckpointEvaluator("paintskills", out=f"{store.root}/steps").path(1)).startswith(f"{store.root}/steps/")
    assert Truth.parse(f"human:{run}").run == run


def test_folders_with_a_file_are_found_anywhere_below_and_not_in_each_other(anywhere):
    for name in ("b/x/manifest.json", "a/manifest.json", "a/inner/manifest.json", "c/other.json"):
        write_whole(anywhere / name, b"{}")
    assert [path.relative_to(anywhere).as_posix() for path in folders_with(anywhere, "manifest.json")] == ["a", "b/x"]
    assert list(folders_with(anywhere / "a", "manifest.json")) == [anywhere / "a"]


def test_what_only_paths_of_a_disk_can_do_is_refused_in_words():
    with pytest.raises(UsageError, match=r"s3://bucket/x lies in object storage, which has no 'rename'"):
        location("s3://bucket/x").rename("y")
    with pytest.raises(AttributeError):
        location("s3://bucket/x").nothing_of_the_kind  # noqa: B018


def test_a_run_that_is_not_there_is_refused(store):
    with pytest.raises(UsageError, match=rf"{store.root}/none is not a run directory"):
        Run.open(f"{store.root}/none")
    location(f"{store.root}/else/notes.txt").write_bytes(b"mine")
    with pytest.raises(UsageError, match=rf"{store.root}/else exists and is not a run directory"):
        verism.evaluate("paintskills", model="oracle", detector="builtin", limit=1, out=f"{store.root}/else")
