"""Deliveries in tests: places, as a job names them and as a reader sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.core.model import Lease
from shoal.store.deliveries import Delivery
from shoal.worker.result import Result
from tests.contract.api import Desk, page
from tests.duck import query
from tests.s3 import S3

URL = "http://shop.example/"
FIELDS = {"title": "h1", "price": ".price"}


@dataclass(frozen=True, slots=True)
class Target:
    """A place, as a job names it and as a reader sees it."""

    url: str
    read: Callable[[str], bytes]
    names: Callable[[], list[str]]

    def latest(self) -> dict[str, Any]:
        return json.loads(self.read("latest.json"))


def a_folder(root: Path) -> Target:
    root.mkdir()
    return Target(
        f"file://{root}/",
        lambda name: (root / name).read_bytes(),
        lambda: sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()),
    )


def a_bucket(server: S3) -> Target:
    bucket = server.new_bucket()
    return Target(
        f"s3://{bucket}/books/",
        lambda name: server.get(bucket, f"books/{name}"),
        lambda: [key.removeprefix("books/") for key in server.keys(bucket)],
    )


def take(lease: Lease) -> Result:
    number = int(str(lease.request.url).rpartition("/")[2])
    return page(lease, item={"title": f"Book {number}", "price": number / 2})


def a_job(desk: Desk, output: Any, count: int = 5, **settings: Any) -> str:
    return desk.submit(*(f"{URL}{number}" for number in range(count)), fields=FIELDS, output=output, **settings)


def the_delivery(desk: Desk, job: str) -> Delivery:
    (found,) = desk.platform.deliveries.of_job(job)
    return found


def rows(target: Target, folder: Path) -> list[dict[str, Any]]:
    """What a reader sees who follows the pointer."""
    found: list[dict[str, Any]] = []
    for part in target.latest()["parts"]:
        content = target.read(part["path"])
        assert len(content) == part["bytes"]
        file = folder / "read.parquet"
        file.write_bytes(content)
        found += query(f"SELECT * FROM '{file}'").rows
    return found
