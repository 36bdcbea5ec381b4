"""Data and results in a bucket, on a local S3 server."""

from __future__ import annotations

import json

import packed
import pandas as pd
import pytest

pytestmark = pytest.mark.needs("moto", "flask", "flask_cors", "boto3")


@pytest.fixture(scope="module")
def bucket():
    """The address of a new bucket, and what puts files into it."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=settings["AWS_ENDPOINT_URL"])
        client.create_bucket(Bucket="images")
        yield client
    server.stop()


def upload(client, folder, key):
    for path in sorted(folder.iterdir()):
        client.upload_file(str(path), "images", f"{key}/{path.name}")


def keys(client, prefix):
    return [one["Key"] for one in client.list_objects_v2(Bucket="images", Prefix=prefix).get("Contents", [])]


@pytest.mark.parametrize(
    "kind", ["tars", *(pytest.param(kind, marks=pytest.mark.slow) for kind in packed.WRITERS if kind != "tars")]
)
def test_a_bucket_gives_what_the_disk_gives(kind, bucket, nngcd, small_backbone, tmp_path):
    packed.WRITERS[kind](tmp_path / kind, packed.pictures(20, broken=3), 2)
    upload(bucket, tmp_path / kind, kind)
    embed = ["embed", "--workers", 2, "-q"]
    assert nngcd(*embed, tmp_path / kind, "--out", tmp_path / "local.parquet")[0] == 0
    code, out, err = nngcd(*embed, f"s3://images/{kind}", "--out", tmp_path / "remote.parquet")
    assert code == 0, err
    assert "19 images, 12 features each" in out
    assert (tmp_path / "local.parquet").read_bytes() == (tmp_path / "remote.parquet").read_bytes()


@pytest.mark.slow
def test_parts_go_into_a_bucket_and_come_back(bucket, nngcd, small_backbone, image_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("nngcd.data.sources.IMAGES_PER_READ", 7)
    embed = ["embed", image_folder, "--workers", 0, "-q", "--out", "s3://images/out/features"]
    code, out, err = nngcd(*embed, "--shard", "0/2")
    assert (code, "2 of 5 parts are still missing" in out) == (0, True), err
    assert nngcd("merge", "s3://images/out/features")[0] == 3
    assert nngcd(*embed, "--shard", "1/2", "--json")[0] == 0
    code, out, err = nngcd("merge", "s3://images/out/features", "--json", "--out", tmp_path / "all.parquet")
    assert (code, json.loads(out)["images"]) == (0, 30), err
    assert len(pd.read_parquet(tmp_path / "all.parquet")) == 30
    found = keys(bucket, "out/features")
    assert [key.rpartition("/")[2] for key in found] == [
        "_manifest.json", "_plan.json", *(f"part-{i:05d}.parquet" for i in range(5)),
    ]  # fmt: skip
    code, out, err = nngcd(*embed)
    assert (code, "30 rows in 5 parts" in out) == (0, True), err
    # What is in the bucket can be fitted to, and sorted.
    fit = ["fit", "s3://images/out/features", "--k", 3, "--method", "kmeans", "-q", "--out", tmp_path / "run"]
    assert nngcd(*fit)[0] == 0
    predict = ["predict", tmp_path / "run", "s3://images/out/features", "-q", "--out", "s3://images/out/sorted"]
    code, out, err = nngcd(*predict)
    assert (code, "30 rows in 5 parts" in out) == (0, True), err


def test_a_table_of_paths_in_a_bucket(bucket, nngcd, small_backbone, image_folder, tmp_path):
    names = sorted(path.relative_to(image_folder).as_posix() for path in image_folder.rglob("*.png"))
    for name in names:
        bucket.upload_file(str(image_folder / name), "images", f"files/{name}")
    pd.DataFrame({"file_name": [*names, "gone.png"]}).to_parquet(tmp_path / "t.parquet")
    bucket.upload_file(str(tmp_path / "t.parquet"), "images", "files/t.parquet")
    code, out, err = nngcd("embed", "s3://images/files/t.parquet", "--workers", 2, "-q", "--out", tmp_path / "f.npy")
    assert code == 0, err
    assert "30 images" in out
    assert "1 files were not used, first 'gone.png': missing" in out


def test_what_cannot_be_reached_is_named(bucket, nngcd, small_backbone, tmp_path):
    out = ["--out", tmp_path / "f.npy"]
    for nothing in ("s3://images/nothing", "s3://nobody/x"):
        code, _, err = nngcd("embed", nothing, *out)
        assert (code, f"D01: '{nothing}' not found; expected" in " ".join(err.split())) == (2, True), err
    bucket.put_object(Bucket="images", Key="letters/a.txt", Body=b"dear")
    code, _, err = nngcd("embed", "s3://images/letters", *out)
    assert (code, "holds no .tar" in err, "(found 1 files)" in err) == (3, True, True), err
    code, _, err = nngcd("embed", "nowhere://x", *out)
    assert (code, "D33: cannot reach 'nowhere://x'" in " ".join(err.split())) == (3, True), err
