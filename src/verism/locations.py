"""Where files lie: in a local file system, or in object storage such as Amazon S3.

``location`` takes a path or URL and gives a ``Path``. For ``s3://``, ``gs://`` and ``az://`` that is a ``RemotePath``,
which has those methods of ``pathlib.Path`` that make sense there. So code that reads and writes by ``verism.files`` and
by methods of paths works with both. What object storage does not have, renaming, appending and locks, no run needs.

Credentials, endpoints and regions are found by the library (obstore) in its own environment variables
(``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS`` ...) or those of the machine, and are
neither read nor kept here. Requests that fail for a passing reason are repeated, with growing pauses.
"""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import re
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath, PurePosixPath
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from verism.errors import UsageError, require
from verism.shards import member_of
from verism.systems import WINDOWS

__all__ = [
    "SCHEMES",
    "RemotePath",
    "beside",
    "check_on_disk",
    "folders_with",
    "is_file",
    "is_remote",
    "location",
    "names_in",
    "remove_tree",
]

# Scheme by how many names after it say which store: a bucket, or an account and a container.
SCHEMES: dict[str, int] = {"s3": 1, "gs": 1, "az": 2}
PAGE = 1000  # objects per request of a listing
DELETED_AT_ONCE = 1000
SENT_AT_ONCE = 4  # pieces of a large object, each of 5 MB and in memory; the object is there once all of them are
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_HALF_URL = re.compile(r"(?i)(s3|gs|az|file):/(?!/)")
_SECRETS = re.compile(r"(?i)(key|secret|token|password|signature|credential)")
_SIGNED = re.compile(r"(?i)[?&](sig|[^=&]*(key|secret|token|password|signature|credential)[^=&]*)=")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound")
# Who is asked for the credentials of a machine's role, after all else that could name some.
_ROLE = re.compile(r"https?://(169\.254\.\d+\.\d+|\[fd00:ec2::\w+\]|metadata\.google\.internal)\b")
_REQUEST = re.compile(
    r"Error performing ([A-Z]+) (\S+) in \S+?(?:, after (\d+) retries, max_retries: \d+, retry_timeout: \S+)? - (.*)"
)
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
}
_VARIABLES = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (those of a profile: "
    'eval "$(aws configure export-credentials --profile NAME --format env)")',
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to their file, or call: gcloud auth application-default login",
    "az": "set AZURE_STORAGE_ACCOUNT_KEY, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or after "
    "`az login` AZURE_USE_AZURE_CLI=true",
}
_stores: dict[tuple[int, str], Any] = {}
_lock = threading.Lock()

# To readers of types a remote path is a Path. It is none at run time: what is not overridden must not touch the disk.
if TYPE_CHECKING:
    _Base = Path
else:
    _Base = PurePosixPath


def location(value: str | os.PathLike[str]) -> Path:
    """The path of a file or folder, local or in object storage.

    >>> location("runs/a").as_posix(), str(location("s3://bucket/runs/a")), location("s3://b/x.csv").suffix
    ('runs/a', 's3://bucket/runs/a', '.csv')

    Args:
        value: a path, or a URL: ``file://``, ``s3://bucket/...``, ``gs://bucket/...``, ``az://account/container/...``.
    Raises:
        UsageError: a URL of another kind, or one that names no bucket.
    """
    if isinstance(value, PurePath):
        return cast(Path, value)
    text = os.fspath(value)
    match = _URL.match(text)
    if match is None:
        if half := _HALF_URL.match(text):
            slashes = ":///" if half[1].lower() == "file" else "://"
            raise UsageError(
                f"{text}: a URL has two slashes: write {half[1].lower()}{slashes}{text[half.end() :]}; for a folder of "
                f"this name, ./{text}"
            )
        return Path(text)
    scheme = match[1].lower()
    names = text[match.end() :].partition("/")[0]
    if scheme == "file":
        if names.lower() not in ("", "localhost"):
            raise UsageError(
                f"{text} names a file of the machine {names!r}; a file of this one has three slashes: "
                f"file:///{text[match.end() :]}"
            )
        parts = urlsplit(text)
        return Path(url2pathname(unquote(parts.path) if not WINDOWS else parts.path))
    if scheme not in SCHEMES:
        raise UsageError(
            f"{_without_secrets(text)}: files are read from and written to s3://, gs://, az://, file:// and plain paths"
        )
    if "@" in names or _SIGNED.search(text):
        raise UsageError(
            f"{_without_secrets(text)}: this URL was given with credentials, which would be stored with the run; "
            f"leave them out, and {_CREDENTIALS[scheme]}"
        )
    path = RemotePath(f"{scheme}:/{text[match.end() - 1 :]}")
    if len(path.parts) <= SCHEMES[scheme]:
        missing = (
            "container: write az://ACCOUNT/CONTAINER/..." if scheme == "az" else f"bucket: write {scheme}://BUCKET/..."
        )
        raise UsageError(f"{text} names no {missing}")
    return path


def is_remote(path: PurePath) -> bool:
    """Whether a path lies in object storage.

    Args:
        path: as ``location`` gives it.
    """
    return isinstance(path, RemotePath)


def beside(folder: Path, written: str) -> Path:
    """The file that a table names: a URL or an absolute path, or one that counts from the table's folder.

    Args:
        folder: of the table.
        written: as it stands in the table.
    """
    path = location(written)
    return path if path.is_absolute() else folder / written


def is_file(path: Path) -> bool:
    """Whether a path is a file, or lies in a shard that is one; False, too, for names that no file can have.

    Args:
        path: of any kind.

    Raises:
        OSError: object storage does not say.
    """
    member = member_of(path)
    try:
        return path.is_file() if member is None else member.shard.is_file()
    except (OSError, ValueError) as err:
        if isinstance(path, RemotePath) and getattr(err, "errno", errno.EINVAL) != errno.EINVAL:
            raise  # nobody answered: that says nothing of the file
        return False


def names_in(folder: Path, start: str = "") -> Iterator[str]:
    """Names of what lies directly in a folder, in no order; nothing where there is none.

    ``Path.glob`` holds the entries of the whole folder, which may be a million.

    Args:
        folder: any path.
        start: names that begin so are wanted.
    """
    if isinstance(folder, RemotePath):
        yield from (path.name for path in folder.glob(f"{start}*"))
        return
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from (entry.name for entry in entries if entry.name.startswith(start))


def folders_with(folder: Path, name: str) -> Iterator[Path]:
    """Folders anywhere below one, or that one itself, that have a file; none below those that have it.

    Args:
        folder: any path.
        name: of the file.
    """
    if not isinstance(folder, RemotePath):
        for parent, folders, files in os.walk(folder):
            folders.sort()
            if name in files:
                folders.clear()
                yield Path(parent)
        return
    inside = list(folder.iterdir())
    if any(path.name == name and not path.is_dir() for path in inside):
        yield folder
        return
    for path in inside:
        if path.is_dir():
            yield from folders_with(path, name)


def check_on_disk(path: PurePath, instead: str) -> None:
    """Refuse what lies in object storage where only a disk will do.

    Args:
        path: of any kind.
        instead: why a disk is needed and what to do, for the message.

    Raises:
        UsageError: it lies in object storage.
    """
    if isinstance(path, RemotePath):
        raise UsageError(f"{path} lies in object storage, and {instead}")


def remove_tree(path: Path) -> None:
    """Remove a folder and everything below it; what cannot be removed stays.

    Args:
        path: the folder, which need not exist.
    """
    if isinstance(path, RemotePath):
        path.remove_tree()
    else:
        shutil.rmtree(path, ignore_errors=True)


class RemotePath(_Base):
    """An object, or a prefix of objects, in object storage; with the methods of ``pathlib.Path``.

    A prefix is a folder that exists as long as there is an object below it. Objects are written whole by one request;
    readers see the old one or the new one.
    """

    # Out of a listing, so that nobody needs to ask again: what it said of the object, or that it is a folder.
    _status: Any = None
    _is_folder = False

    # ------------------------------------------------------------------------------------------------------- names
    def __str__(self) -> str:
        parts = self.parts
        if parts and parts[0].endswith(":"):
            return f"{parts[0]}//{'/'.join(parts[1:])}"
        return "/".join(parts) or "."

    def __fspath__(self) -> str:
        raise UsageError(f"{self} lies in object storage, and what needs it reads local files only; copy it first")

    def __getattr__(self, name: str) -> Any:
        # What paths of a disk can do besides: users who ask for it are told so, where others see a mistake.
        if name.startswith("_") or not hasattr(Path, name):
            raise AttributeError(name)
        raise UsageError(f"{self} lies in object storage, which has no {name!r}; name a folder of this machine")

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_text, (str(self),)

    def is_absolute(self) -> bool:
        """Whether it names a store."""
        return bool(self.parts) and self.parts[0].endswith(":")

    def absolute(self) -> RemotePath:
        """The path itself."""
        return self

    def resolve(self, strict: bool = False) -> RemotePath:  # noqa: ARG002 as of Path
        """The path itself: there are no links."""
        return self

    def expanduser(self) -> RemotePath:
        """The path itself."""
        return self

    def _place(self) -> tuple[Any, str]:
        """The store, and the key in it."""
        if not self.is_absolute():
            raise ValueError(f"{self} is relative to something in object storage")
        named = 1 + SCHEMES[self.parts[0][:-1]]
        root = f"{self.parts[0]}//{'/'.join(self.parts[1:named])}"
        return _store(root), "/".join(self.parts[named:])

    def _at(self, key: str, status: Any = None) -> RemotePath:
        """The path of another key of the same store."""
        named = 1 + SCHEMES[self.parts[0][:-1]]
        path = type(self)(*self.parts[:named], key)
        path._status = status
        return path

    # ------------------------------------------------------------------------------------------------------ status
    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002 as of Path
        """Size and time of an object.

        Raises:
            FileNotFoundError: there is none.
        """
        import obstore

        meta = self._status
        if meta is None:
            store, key = self._place()
            with _errors(self):
                meta = obstore.head(store, key)
        seconds = meta["last_modified"].timestamp()
        return cast(
            os.stat_result,
            SimpleNamespace(
                st_size=meta["size"], st_mtime=seconds, st_mtime_ns=round(seconds * 1e9), st_mode=stat.S_IFREG | 0o644
            ),
        )

    def is_file(self) -> bool:
        """Whether there is an object of this name."""
        if self._is_folder:
            return False
        try:
            return self._place()[1] != "" and stat.S_ISREG(self.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def is_dir(self) -> bool:
        """Whether there are objects below it."""
        import obstore

        if self._status is not None or self._is_folder:
            return self._is_folder
        store, key = self._place()
        with _errors(self):
            return any(page for page in obstore.list(store, key or None, chunk_size=1))

    def exists(self) -> bool:
        """Whether it is an object, or has any below it."""
        return self.is_file() or self.is_dir()

    def is_symlink(self) -> bool:
        """False: there are no links."""
        return False

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: folders come with what lies in them."""

    def rmdir(self) -> None:
        """Do nothing: folders go with what lay in them."""

    # ----------------------------------------------------------------------------------------------------- listing
    def iterdir(self) -> Iterator[RemotePath]:  # type: ignore[override] # of Path: a generator
        """Objects and folders directly below it, in the order of their names."""
        import obstore

        store, key = self._place()
        with _errors(self):
            found = obstore.list_with_delimiter(store, key or None)
        paths = [self._at(meta["path"], meta) for meta in found["objects"]]
        for prefix in found["common_prefixes"]:
            folder = self._at(prefix)
            folder._is_folder = True
            paths.append(folder)
        yield from sorted(paths)

    def _objects(self, head: str = "") -> Iterator[RemotePath]:
        """All objects below it whose path from here begins with ``head``, in the order of their keys.

        The listing starts there and ends there: what it costs does not depend on how much else the folder has.
        """
        import obstore

        store, key = self._place()
        start = f"{key}/" if key else ""
        # Services leave out the object that a listing starts behind, which may be one whose name is ``head``.
        offset = start + head[:-1] if head else None
        with _errors(self):
            for page in obstore.list(store, key or None, offset=offset, chunk_size=PAGE):
                for meta in page:
                    name = meta["path"][len(start) :]
                    if name.startswith(head):
                        yield self._at(meta["path"], meta)
                    elif name > head:
                        return

    def glob(self, pattern: str) -> Iterator[RemotePath]:  # type: ignore[override]
        """Objects and folders that fit a pattern, in the order of their names; ``*``, ``?`` and ``[...]`` in each part.

        Args:
            pattern: parts with ``/`` between them.
        """
        first, _, rest = pattern.partition("/")
        if first == "**":
            yield from self.rglob(rest or "*")
            return
        head = re.split(r"[*?\[]", first)[0]
        if head == first:
            below = self / first
            yield from below.glob(rest) if rest else ([below] if below.exists() else [])
            return
        if head and not rest:
            inside = len(self.parts) + 1
            fitting = (path for path in self._objects(head) if len(path.parts) == inside)
            yield from (path for path in fitting if fnmatch.fnmatchcase(path.name, first))
            return
        for path in self.iterdir():
            if fnmatch.fnmatchcase(path.name, first):
                if rest and path._is_folder:
                    yield from path.glob(rest)
                elif not rest:
                    yield path

    def rglob(self, pattern: str) -> Iterator[RemotePath]:  # type: ignore[override]
        """Objects at any depth whose name fits a pattern.

        Args:
            pattern: of the name.
        """
        return (path for path in self._objects() if fnmatch.fnmatchcase(path.name, pattern))

    # ----------------------------------------------------------------------------------------------------- reading
    def read_bytes(self) -> bytes:
        """The content of an object.

        Raises:
            FileNotFoundError: there is none.
            OSError: it cannot be read.
        """
        import obstore

        store, key = self._place()
        with _errors(self):
            return bytes(obstore.get(store, key).bytes())

    def read_range(self, offset: int, length: int) -> bytes:
        """Some bytes of an object, by one request for these alone; fewer where it ends before.

        Args:
            offset: of the first.
            length: how many.

        Raises:
            FileNotFoundError: there is none.
            OSError: it cannot be read, or ends before the first of them.
        """
        import obstore

        if not length:
            return b""
        store, key = self._place()
        with _errors(self):
            return bytes(obstore.get_range(store, key, start=offset, length=length))

    def open_bounded(self, limit: int, hint: str) -> io.BytesIO:
        """The content of an object, unless it is too large.

        Args:
            limit: of its size, bytes; a larger one is not fetched.
            hint: what to do then, for the message.

        Raises:
            FileNotFoundError: there is none.
            OSError: it is larger, or cannot be read.
        """
        import obstore

        store, key = self._place()
        with _errors(self):
            found = obstore.get(store, key)
            size = found.meta["size"]
            if size > limit:
                raise OSError(errno.EFBIG, f"it has {size:,} bytes; {hint}", str(self))
            return io.BytesIO(found.bytes())

    def read_text(self, encoding: str | None = "utf-8", errors: str | None = None) -> str:
        """The content of an object as text.

        Args:
            encoding: of the text.
            errors: as of ``bytes.decode``.
        """
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def open(self, mode: str = "r", **kwargs: Any) -> IO[Any]:  # type: ignore[override]
        """An object for reading.

        Args:
            mode: ``rb``, or ``r`` for text in UTF-8.
            **kwargs: ``encoding``; others are ignored.

        Raises:
            UsageError: another mode: objects are written whole.
        """
        if mode not in ("r", "rb", "rt"):
            raise UsageError(
                f"{self} lies in object storage, where files are written whole; mode {mode!r} needs a disk"
            )
        data = io.BytesIO(self.read_bytes())
        return data if mode == "rb" else io.TextIOWrapper(data, encoding=kwargs.get("encoding") or "utf-8")

    # ----------------------------------------------------------------------------------------------------- writing
    def write_bytes(self, data: Any, *, create: bool = False) -> int:
        """Write an object whole.

        Args:
            data: its content, or a local file that has it, of which some megabytes are in memory at a time.
            create: whether it must not be there yet.

        Raises:
            FileExistsError: it is there, and ``create`` is asked for.
            OSError: it cannot be written.
        """
        import obstore

        store, key = self._place()
        content = data if isinstance(data, bytes | Path) else bytes(data)
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        with _errors(self):
            obstore.put(store, key, content, mode="create" if create else "overwrite", max_concurrency=SENT_AT_ONCE)
        self._status = None
        return size

    def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,  # noqa: ARG002
    ) -> int:
        """Write an object of text whole, as UTF-8.

        Args:
            data: the text.
            encoding: of the text.
            errors: as of ``str.encode``.
            newline: ignored: line ends stay as they are.
        """
        return self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove an object.

        Args:
            missing_ok: whether there need not be one.

        Raises:
            FileNotFoundError: there is none, and there must be.
        """
        import obstore

        store, key = self._place()
        if not missing_ok:
            self.stat()
        with _errors(self):
            try:
                obstore.delete(store, key)
            except FileNotFoundError:
                if not missing_ok:
                    raise
        self._status = None

    def replace(self, target: str | os.PathLike[str]) -> RemotePath:
        """Copy an object to another name of the same store, and remove it: two steps, unlike on a disk.

        Args:
            target: the other name.

        Raises:
            FileNotFoundError: there is no object.
        """
        import obstore

        other = cast(RemotePath, location(target))
        store, key = self._place()
        with _errors(self):
            obstore.copy(store, key, other._place()[1])
        self.unlink()
        return other

    def remove_tree(self) -> None:
        """Remove every object below it; see ``remove_tree``."""
        import obstore

        store, _ = self._place()
        named = 1 + SCHEMES[self.parts[0][:-1]]
        try:
            keys = ["/".join(path.parts[named:]) for path in self._objects()]
            with _errors(self):
                for start in range(0, len(keys), DELETED_AT_ONCE):
                    obstore.delete(store, keys[start : start + DELETED_AT_ONCE])
        except OSError:  # as rmtree with ignore_errors
            return


def _from_text(text: str) -> Path:
    return location(text) if _URL.match(text) else cast(Path, RemotePath(text))


def _store(root: str) -> Any:
    """The client of a store; one for each process."""
    with _lock:
        known = _stores.get((os.getpid(), root))
        if known is None:
            known = _stores[os.getpid(), root] = _connect(root)
        return known


def _connect(root: str) -> Any:
    require("obstore", extra="storage", purpose=f"object storage ({root})")
    from obstore.exceptions import BaseError
    from obstore.store import AzureStore, from_url

    scheme, _, names = root.partition("://")
    for name in _ENDPOINTS.get(scheme, ()):  # which the library finds out at the first request, and dies of
        if (value := os.environ.get(name)) and not value.lower().startswith(("http://", "https://")):
            raise UsageError(f"{name} is {_without_secrets(value)!r}; write http:// or https:// before it")
    try:
        if scheme == "az":  # as a URL, obstore takes the first name for the container
            account, _, container = names.partition("/")
            return AzureStore(container, account_name=account)
        return from_url(root)
    except (BaseError, ValueError) as err:
        raise UsageError(f"{root} cannot be used: {_plain(err)}") from err


@contextmanager
def _errors(path: RemotePath) -> Iterator[None]:
    """The library's errors as those that a file system raises, with the path and without credentials."""
    from obstore import exceptions

    try:
        yield
    except (exceptions.NotFoundError, FileNotFoundError) as err:
        if isinstance(err, FileNotFoundError) and err.filename is not None:
            raise
        raise FileNotFoundError(errno.ENOENT, "no such object", str(path)) from err
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as err:
        raise FileExistsError(errno.EEXIST, "it exists", str(path)) from err
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as err:
        raise PermissionError(errno.EACCES, f"not permitted: {_plain(err)}", str(path)) from None
    except exceptions.BaseError as err:
        scheme = path.parts[0][:-1]
        if _NO_BUCKET.search(str(err)):
            named = "/".join(path.parts[1 : 1 + SCHEMES[scheme]])
            raise UsageError(
                f"{path}: there is no bucket or container {named!r}; create it or correct the name"
            ) from None
        if _ROLE.search(str(err)):
            raise UsageError(
                f"{path}: no credentials were found: {_CREDENTIALS[scheme]}; for a public bucket, "
                f"{_VARIABLES[scheme]}_SKIP_SIGNATURE=true. The environment names none, and a role of this machine "
                f"gives none: {_plain(err)}"
            ) from None
        raise OSError(errno.EIO, _plain(err, _VARIABLES[scheme]), str(path)) from None
    except ValueError as err:  # of the library: a name that no object can have
        raise OSError(
            errno.EINVAL, "no object can have a name with a part '.' or '..', or with control characters", str(path)
        ) from err


def _plain(err: Exception, variables: str = "AWS") -> str:
    """What the library says, in a line, without what an environment variable keeps secret.

    Args:
        err: its error.
        variables: how names of environment variables of this kind of store begin.
    """
    text = " ".join(str(err).split("\n\nDebug source")[0].split())
    if found := _REQUEST.search(text):
        method, url, retries, said = found.groups()
        if "builder error" in said:
            said = (
                f"a server without TLS is used only with {variables}_ALLOW_HTTP=true"
                if url.startswith("http://")
                else "the endpoint is no URL"
            )
        said = said.replace("Server returned non-2xx status code: ", "").rstrip(": ")
        said = said.replace("HTTP error: error sending request", "the server cannot be reached")
        if answer := re.search(r"<Code>(.*?)</Code>(?:.*?<Message>(.*?)</Message>)?", said):
            said = f"{said.partition(': <')[0]}: {': '.join(filter(None, answer.groups()))}"
        text = f"{said} ({method} {_without_secrets(url)}{f', after {retries} retries' if retries else ''})"
    text = re.sub(r"(?is)<(AWSAccessKeyId|StringToSign\w*|CanonicalRequest\w*|SignatureProvided)>.*?</\1>", "", text)
    for name, value in os.environ.items():
        if len(value) >= 6 and _SECRETS.search(name):
            text = text.replace(value, "***")
    return _without_secrets(text)[:300] or type(err).__name__


def _without_secrets(text: str) -> str:
    """A text with URLs, without users, passwords and what follows a question mark in them."""
    return re.sub(r"(://)(?:[^\s/]*@)?([^\s?)]*)(?:\?[^\s)]*)?", r"\1\2", text)
