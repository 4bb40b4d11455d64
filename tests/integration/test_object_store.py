"""Records in an object store that speaks S3's protocol over HTTP: the bits of the files, and one
sentence for every failure.
"""

import importlib
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import PUBLIC, Command, refused
from fastlloyd.base import extras
from fastlloyd.records import Missing, open_records, read_table, stores
from fastlloyd.records.record_file import RecordFile
from record_files import NAMED, NAMELESS, SECRET, formats, pa, pq, refusal, written

server = pytest.importorskip("moto.server", reason="the S3 server of moto is not installed")
pytest.importorskip("s3fs", reason="s3fs is not installed")
FORMATS = {**NAMED, **NAMELESS}
READ_ALIKE = (
    "plain parquet",
    "packed arrow",
    "npy of the other byte order",
    "matrix by columns in npz",
)
X = np.random.default_rng(5).normal(size=(23, 3))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture(scope="module")
def store(endpoint: str) -> Iterator[Any]:
    """The file system of fsspec, which keeps no listings; one connection serves all tests, as
    making it costs most.
    """
    kind = importlib.import_module("s3fs").S3FileSystem
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", endpoint)
        environment.setenv("AWS_ACCESS_KEY_ID", "somebody")
        environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("AWS_MAX_ATTEMPTS", "1")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        environment.delenv("AWS_PROFILE", raising=False)
        kind.clear_instance_cache()
        yield kind(use_listings_cache=False)
    kind.clear_instance_cache()


@pytest.fixture
def s3(store: Any) -> Iterator[Any]:
    """The same with an empty bucket."""
    store.mkdir("hospital")
    yield store
    store.rm("hospital", recursive=True)


def stored(s3: Any, name: str, path: Path) -> str:
    s3.pipe(f"hospital/{name}", path.read_bytes())
    return f"s3://hospital/{name}"


@pytest.mark.parametrize("kind", formats(kind for kind in FORMATS if kind not in READ_ALIKE))
def test_an_object_a_folder_and_a_pattern_hold_the_records_of_the_files(
    s3: Any, tmp_path: Path, kind: str
) -> None:
    suffix = FORMATS[kind][0]
    one = stored(s3, f"one{suffix}", written(tmp_path, kind, X))
    stored(s3, f"visits/y=1/a{suffix}", written(tmp_path, kind, X[:9]))
    stored(s3, f"visits/y=2/b{suffix}", written(tmp_path, kind, X[9:]))
    s3.pipe("hospital/visits/_SUCCESS", b"")
    s3.pipe("hospital/visits_of_others.csv", b"a\n1\n")
    sources = (one, "s3://hospital/visits/", f"s3://hospital/vis*s/*/*{suffix}")
    for source in (
        sources if kind in ("csv", "parquet") else sources[:1]
    ):  # what is found does not depend on its format
        records = open_records(source)
        assert np.concatenate(list(records.blocks())).tobytes() == X.tobytes()
        found = [
            part
            for piece in pickle.loads(pickle.dumps(records.pieces))  # noqa: S301
            for part in piece.split()
        ]
        assert (
            np.concatenate([RecordFile.of_piece(part).table().values for part in found]).tobytes()
            == X.tobytes()
        )
    table = read_table("s3://hospital/visits", ["x2", "y"])
    assert table.values[:, 1].tolist() == [1] * 9 + [2] * 14
    assert (
        table.place(10) == f"s3://hospital/visits/y=2/b{suffix},"
        f" {'line 2' if kind in ('csv', 'gzip') else 'record 1'}"
    )


def test_of_a_parquet_file_each_row_group_is_asked_for_at_once_and_of_other_columns_nothing(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = pa.table({f"x{i}": np.random.default_rng(i).normal(size=60_000) for i in range(12)})
    pq.write_table(
        wide,
        tmp_path / "wide.parquet",
        row_group_size=20_000,
        use_dictionary=False,
        compression="none",
    )
    records = open_records(stored(s3, "wide.parquet", tmp_path / "wide.parquet"), ["x4", "x5"])
    asked: list[int] = []
    read = stores._Object.readinto

    def counted(stored: stores._Object, buffer: Any) -> int:
        asked.append(read(stored, buffer))
        return asked[-1]

    monkeypatch.setattr(stores._Object, "readinto", counted)
    assert sum(map(len, records.blocks())) == 60_000
    assert len(asked) <= 8  # the end of the file, and two columns side by side of each row group
    assert sum(asked) < 60_000 * 2 * 8 * 1.2 + (1 << 16)


@pytest.mark.parametrize("when", ["before a pass", "during a pass"])
@pytest.mark.parametrize("change", ["replaced by as many bytes", "deleted", "a further object"])
def test_a_change_of_an_object_ends_the_pass(
    s3: Any, tmp_path: Path, when: str, change: str
) -> None:
    for i in range(2):
        stored(s3, f"visits/{i}.npy", written(tmp_path, "npy", X + i))
    records = open_records("s3://hospital/visits")
    blocks = records.blocks()
    if when == "during a pass":
        next(blocks)
    if change == "deleted":
        s3.rm("hospital/visits/1.npy")
    else:
        stored(
            s3,
            "visits/2.npy" if change == "a further object" else "visits/1.npy",
            written(tmp_path, "npy", X + 7),
        )
    sentence = refusal(lambda: list(blocks))
    assert sentence.startswith(
        f"s3://hospital/visits/{2 if change == 'a further object' else 1}.npy: "
    )
    assert "was changed while it was in use" in sentence or change == "deleted"


@pytest.mark.parametrize("kind", formats(kind for kind in FORMATS if kind not in READ_ALIKE))
def test_what_is_wrong_in_an_object_is_said_as_of_a_file(
    s3: Any, tmp_path: Path, kind: str
) -> None:
    gap = X.copy()
    gap[4, 1] = np.nan
    address = stored(s3, f"gap{FORMATS[kind][0]}", written(tmp_path, kind, gap))
    where = "line 6" if kind in ("csv", "gzip") else "record 5"
    assert refusal(partial(read_table, address)).startswith(
        f"{address}, {where}, column 'x2': the cell is missing"
    )
    assert len(read_table(address, missing=Missing.DROP).values) == 22
    content = written(tmp_path, kind, X).read_bytes()
    s3.pipe(address.removeprefix("s3://"), content[: len(content) // 2])
    if kind not in ("csv", "arrow stream"):
        assert refusal(partial(read_table, address)).startswith(f"{address}: ")


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("s3://hospital/none.csv", "there is no such object, folder or bucket"),
        ("s3://hospital/empty", "there is no such object, folder or bucket"),
        ("s3://nowhere/none.csv", "there is no such object, folder or bucket"),
        ("s3://hospital/*.tsv", "no file matches this pattern"),
        ("s3://hospital/README", "the suffix must say the format"),
    ],
)
def test_a_source_that_is_not_there(s3: Any, source: str, what: str) -> None:
    s3.pipe("hospital/README", b"about")
    sentence = refusal(partial(open_records, source))
    assert sentence.startswith(f"{source}: ")
    assert what in sentence


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("S4://hospital/x.csv", "s4: stores of this kind are not read; addresses begin with s3, "),
        (
            f"https://example.org/x.csv?signature={SECRET}",
            "https: stores of this kind are not read",
        ),
        (f"s3://somebody:{SECRET}@hospital/x.csv", "s3: an address must not contain credentials"),
    ],
)
def test_an_address_that_may_hold_credentials_is_not_repeated(source: str, what: str) -> None:
    assert refusal(partial(open_records, source)).startswith(what)


@pytest.mark.parametrize("log", ["_delta_log/0.json", ".hoodie/a", "metadata/v1.metadata.json"])
def test_a_table_of_a_lake_is_refused(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    address = stored(s3, "visits/data/y=1/a.parquet", written(tmp_path, "plain parquet", X))
    s3.pipe(f"hospital/visits/{log}", b"{}")
    for source in (
        "visits",
        "visits/data/",
        "visits/data/**",
        "visits/data/y=1",
        "v*/data/*/*.parquet",
    ):
        sentence = refusal(partial(open_records, f"s3://hospital/{source}"))
        assert sentence.startswith("s3://hospital/visits: this is a table of")
    assert open_records(address).n_rows == len(X)  # who names one file means it
    call = type(s3)._call_s3

    async def here_only(fs: Any, *arguments: Any, **options: Any) -> Any:
        return await (
            call(fs, *arguments, **options) if "visits/data/y=1" in str(options) else _denied()
        )

    monkeypatch.setattr(type(s3), "_call_s3", here_only)
    assert open_records("s3://hospital/visits/data/y=1").n_rows == len(
        X
    )  # who may not see what lies around


def test_without_credentials_a_service_or_access_the_sentence_says_so(
    s3: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(type(s3).clear_instance_cache)
    s3.pipe("hospital/x.csv", b"a,b\n1,2\n")
    ask = partial(open_records, "s3://hospital/x.csv")
    with monkeypatch.context() as patch:
        patch.setattr(type(s3), "_call_s3", _denied)
        assert "the store refuses access" in refusal(ask)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        type(s3).clear_instance_cache()
        assert "the store cannot be reached" in refusal(ask)
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        type(s3).clear_instance_cache()
        assert "the store asks for credentials" in refusal(ask)


async def _denied(*_: object, **__: object) -> None:
    raise PermissionError(SECRET)


@pytest.mark.parametrize("kind", formats(kind for kind in FORMATS if kind not in READ_ALIKE))
def test_a_connection_that_ends_in_mid_pass_is_not_taken_for_damage(
    s3: Any, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = open_records(stored(s3, f"x{FORMATS[kind][0]}", written(tmp_path, kind, X)))

    call = type(s3)._call_s3

    async def lost(fs: Any, method: str, *arguments: Any, **options: Any) -> Any:
        if method == "get_object":
            raise ConnectionResetError(SECRET)
        return await call(fs, method, *arguments, **options)

    monkeypatch.setattr(type(s3), "_call_s3", lost)
    assert "the store cannot be reached" in refusal(records.table)


@pytest.mark.parametrize(
    ("scheme", "package"), [("s3", "s3fs"), ("gs", "gcsfs"), ("az", "adlfs"), ("hdfs", "pyarrow")]
)
def test_without_the_packages_the_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, scheme: str, package: str
) -> None:
    def absent(*_: object) -> None:
        raise ModuleNotFoundError(package)

    monkeypatch.setattr(importlib, "import_module", absent)
    sentence = refusal(partial(open_records, f"{scheme}://hospital/x.csv"))
    assert package in sentence
    assert extras.command("remote") in sentence


def test_commands_read_from_a_store_and_refuse_in_one_sentence(
    s3: Any, fastlloyd: Command, here: Path
) -> None:
    address = stored(s3, "visits/data.csv", here / "data.csv")
    assert fastlloyd("fit", address, *PUBLIC, "--out", "result").code == 0
    assert fastlloyd("fit", "s3://hospital/vis*/", *PUBLIC).code == 0
    assert [path.name for path in here.glob("*-k3-*")] != []
    assert fastlloyd("assign", "result", "s3://hospital/visits", "--out", "labels.csv").code == 0
    for command in (
        ("fit", *PUBLIC),
        ("simulate", "--clients", "2", *PUBLIC),
        ("bounds", "template"),
        ("assign", "result"),
    ):
        name, *more = command
        arguments = (
            (name, *more, "s3://hospital/none")
            if name in ("assign", "bounds")
            else (name, "s3://hospital/none", *more)
        )
        refused(
            fastlloyd(*arguments), "s3://hospital/none: there is no such object, folder or bucket"
        )
