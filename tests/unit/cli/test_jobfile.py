"""Jobs from files, flags and lists of URLs, and what is said when they cannot be read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.jobfile import Written, make_spec, placed, places_in, read_headers, read_job_file, read_url_list
from shoal.errors import BadSpec, BadUrls, InputError


def job_file(folder: Path, text: str | bytes) -> Path:
    path = folder / "job.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def url_file(folder: Path, text: str | bytes) -> str:
    path = folder / "urls.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_a_job_file_is_a_mapping_of_settings(tmp_path: Path) -> None:
    text = "\ufeff# a job\nurls: [https://a.example/]\npages: 3\nrate: 30/m\nfields:\n  title: h1\n  'tags[]': .tag\n"
    assert read_job_file(job_file(tmp_path, text)) == {
        "urls": ["https://a.example/"],
        "pages": 3,
        "rate": "30/m",
        "fields": {"title": "h1", "tags[]": ".tag"},
    }


@pytest.mark.parametrize("text", ["", "# nothing", "- a\n- b", "just text", "5", "1: 2", "on: 1", "null"])
def test_anything_else_gets_an_example(tmp_path: Path, text: str) -> None:
    path = job_file(tmp_path, text)
    with pytest.raises(BadSpec) as caught:
        read_job_file(path)
    assert str(caught.value) == (
        f"{path}: a job is a mapping of settings, for example\n  urls: [https://example.com/]\n  pages: 100"
    )


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("a: [", ", line 1, column 5", "expected the node content, but found '<stream end>'"),
        ("a: 1\n\tb: 2", ", line 2, column 1", "found character '\\t' that cannot start any token"),
        ("a: 1\nb: *c", ", line 2, column 4", "found undefined alias"),
        ("a: !c4nary b", ", line 1, column 4", "could not determine a constructor for the tag"),
        ("a: 1\n--- \nb: 2", ", line 2, column 1", "but found another document"),
    ],
)
def test_broken_yaml_is_shown_its_place(tmp_path: Path, text: str, place: str, problem: str) -> None:
    path = job_file(tmp_path, text)
    with pytest.raises(BadSpec) as caught:
        read_job_file(path)
    assert str(caught.value) == f"{path}{place}: not valid YAML: {problem}"


@pytest.mark.parametrize("text", ["a: !!python/object/apply:os.getcwd []", "a: !!python/name:os.system", "a: !x 1"])
def test_a_job_file_cannot_run_code(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadSpec, match="could not determine a constructor for the tag"):
        read_job_file(job_file(tmp_path, text))


@pytest.mark.parametrize("text", ["name: 2024-13-45", "name: 2024-01-01 99:00:00", "pages: !!int many"])
def test_a_value_that_yaml_cannot_build_is_bad_input(tmp_path: Path, text: str) -> None:
    path = job_file(tmp_path, text)
    with pytest.raises(BadSpec) as caught:
        read_job_file(path)
    assert str(caught.value).startswith(f"{path}")


def test_a_file_that_cannot_be_read_is_named_with_the_cause(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    with pytest.raises(InputError) as caught:
        read_job_file(missing)
    assert str(caught.value) == f"cannot read {missing}: No such file or directory"
    with pytest.raises(InputError, match="Is a directory"):
        read_job_file(tmp_path)
    with pytest.raises(InputError, match="can't decode byte 0xff"):
        read_job_file(job_file(tmp_path, b"a: \xff"))


def test_a_list_has_one_url_a_line(tmp_path: Path) -> None:
    text = "\ufeffhttp://a.example/\r\n\n  # comment\nhttps://b.example/#x  \n\t\nhttp://a.example/"
    path = url_file(tmp_path, text)
    assert read_url_list(path) == [
        Written("http://a.example/", f"{path}, line 1"),
        Written("https://b.example/#x", f"{path}, line 4"),
        Written("http://a.example/", f"{path}, line 6"),
    ]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(mark + "http://a.example/\n#\n\nhttp://b.example/\n"))
    assert read_url_list("-") == [
        Written("http://a.example/", "standard input, line 1"),
        Written("http://b.example/", "standard input, line 4"),
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "# only\n  # comments\n"])
def test_an_empty_list_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = url_file(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_url_list(path)
    assert str(caught.value) == f"{path} has no URLs in it: write one a line"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    with pytest.raises(InputError, match=r"^standard input has no URLs in it"):
        read_url_list("-")


def test_bad_urls_are_named_with_their_places() -> None:
    exc = BadUrls("", ((1, "this is none"), (2, "nor this")))
    assert str(placed(exc, ["a, line 1", "a, line 4", ""], 3)) == (
        "2 of 3 URLs cannot be used:\n  - a, line 4: this is none\n  - nor this"
    )
    assert "\n  - this is none\n" in str(placed(exc, [], 3))


def test_many_bad_urls_are_counted() -> None:
    told = str(placed(BadUrls("", tuple((number, "x") for number in range(25))), [], 25))
    assert told.count("\n  - ") == 10
    assert told.endswith("\n  … and 15 more")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("name: x\nurls:\n  - http://a.example/\n\n  # b\n  - http://b.example/\n", [3, 6]),
        ("urls: [http://a.example/,\n http://b.example/]\n", [1, 2]),
        ("name: x\n", []),
        ("urls: http://a.example/\n", []),
    ],
)
def test_the_urls_of_a_job_file_have_places(tmp_path: Path, text: str, lines: list[int]) -> None:
    path = job_file(tmp_path, text)
    assert places_in(path) == [f"{path}, line {line}" for line in lines]


@pytest.mark.parametrize(("name", "why"), [("missing", "No such file or directory"), ("", "Is a directory")])
def test_a_list_that_cannot_be_read_is_named_with_the_cause(tmp_path: Path, name: str, why: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(InputError) as caught:
        read_url_list(path)
    assert str(caught.value) == f"cannot read {path}: {why}"


def test_a_list_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't decode byte"):
        read_url_list(url_file(tmp_path, b"http://a.example/\xff\xfe"))


def test_headers_are_split_at_their_first_colon() -> None:
    assert read_headers(["Accept-Language: en", "X-Time:12:30", " A : b ", "Empty:", "A: c"]) == {
        "Accept-Language": "en",
        "X-Time": "12:30",
        "A": "c",
        "Empty": "",
    }


@pytest.mark.parametrize("option", ["", "Accept", "Authorization=c4nary"])
def test_a_header_without_a_colon_gets_an_example_and_is_not_repeated(option: str) -> None:
    with pytest.raises(BadSpec) as caught:
        read_headers([option])
    assert str(caught.value) == "--header has no colon in it: write NAME: VALUE, for example 'Accept-Language: en'"


FILE = "urls: [http://a.example/]\npages: 3\nrobots: true\nfields: {title: h1, price: .p}\nheaders: {A: '1', B: '2'}\n"


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"pages": 5, "robots": False, "depth": 0, "urls": ["http://b.example/"]}
    spec = make_spec(job_file(tmp_path, FILE), flags, ["price=.q", "tags[]=.t"], ["B: 3", "C: 4"])
    assert (spec.urls, spec.pages, spec.robots, spec.depth) == (("http://b.example/",), 5, False, 0)
    assert spec.fields == {"title": "h1", "price": ".q", "tags[]": ".t"}
    assert spec.headers == {"A": "1", "B": "3", "C": "4"}


def test_what_flags_ask_of_the_browser_is_added_to_the_file(tmp_path: Path) -> None:
    path = job_file(tmp_path, "engine: auto\nbrowser: {wait: idle, viewport: 800x600, pdf: true}\n")
    asked: dict[str, Any] = {"wait": ".price", "screenshot": "full", "pdf": None}
    browsing = make_spec(path, {"engine": "browser"}, [], [], (), asked).browser
    assert browsing
    assert (browsing.wait.until, browsing.wait.selector, browsing.screenshot) == ("load", ".price", "full")
    assert (browsing.viewport.width, browsing.pdf) == (800, True)


@pytest.mark.parametrize(
    ("file", "flag", "ignore", "changes"),
    [
        ("", True, [], {}),
        ("", None, [".ad"], {"ignore": (".ad",)}),
        ("changes: true\n", None, [".ad"], {"ignore": (".ad",)}),
        ("changes: {ignore: .menu, content: main}\n", True, [".ad"], {"ignore": (".menu", ".ad"), "content": "main"}),
        ("changes: {ignore_dates: false}\n", True, [], {"ignore_dates": False}),
    ],
)
def test_selectors_of_flags_are_ignored_besides_those_of_the_file(
    tmp_path: Path, file: str, flag: bool | None, ignore: list[str], changes: dict[str, Any]
) -> None:
    path = job_file(tmp_path, f"urls: [http://a.example/]\n{file}")
    spec = make_spec(path, {"changes": flag}, [], [], ignore=ignore)
    assert spec.changes
    assert spec.changes.model_dump(exclude_defaults=True) == changes


def test_who_wants_a_picture_is_told_that_it_takes_a_browser() -> None:
    with pytest.raises(BadSpec, match="browser: this is for engine: browser or auto"):
        make_spec(None, {"urls": ["http://a.example/"]}, [], [], (), {"screenshot": "full"})


def test_flags_that_were_not_given_change_nothing(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"pages": None, "robots": None, "urls": [], "allow": []}
    spec = make_spec(job_file(tmp_path, FILE), flags, [], [])
    assert (spec.urls, spec.pages, spec.robots, spec.allow) == (("http://a.example/",), 3, True, ())
    assert (spec.fields, spec.headers) == ({"title": "h1", "price": ".p"}, {"A": "1", "B": "2"})


def test_no_file_is_needed() -> None:
    spec = make_spec(None, {"urls": ["http://a.example/"]}, ["t=h1"], ["A: b"])
    assert (spec.urls, spec.fields, spec.headers) == (("http://a.example/",), {"t": "h1"}, {"A": "b"})


def test_empty_sections_of_a_file_can_be_filled_by_flags(tmp_path: Path) -> None:
    spec = make_spec(job_file(tmp_path, "fields:\nheaders:\n"), {}, ["t=h1"], ["A: b"])
    assert (spec.fields, spec.headers) == ({"t": "h1"}, {"A": "b"})


@pytest.mark.parametrize("text", ["fields: [h1]", "fields: h1", "headers: 'A: b'", "headers: [A]"])
def test_a_section_of_another_kind_is_refused_also_when_flags_add_to_it(tmp_path: Path, text: str) -> None:
    path = job_file(tmp_path, text)
    with pytest.raises(BadSpec) as caught:
        make_spec(path, {}, ["t=h1"], ["A: b"])
    assert str(caught.value).startswith(f"{path} is not valid:\n  - {text.partition(':')[0]}: ")


def test_a_mistake_is_told_with_the_name_of_its_file(tmp_path: Path) -> None:
    path = job_file(tmp_path, "page: 3")
    with pytest.raises(BadSpec) as caught:
        make_spec(path, {}, [], [])
    assert str(caught.value) == f"{path} is not valid:\n  - page: there is no such setting; did you mean 'pages'?"
    with pytest.raises(BadSpec, match=r"^the job is not valid:\n  - pages: "):
        make_spec(None, {"pages": 0}, [], [])


@pytest.mark.parametrize("text", ['{"type": "object", "required": ["t"]}', "type: object\nrequired: [t]\n"])
def test_the_schema_of_a_contract_can_be_a_file_beside_the_job(tmp_path: Path, text: str) -> None:
    (tmp_path / "book.schema").write_text(text)
    job = tmp_path / "job.yaml"
    job.write_text("urls: [http://a.example/]\nfields: {t: h1}\ncontract: {schema: book.schema}\n")
    spec = make_spec(job, {}, (), ())
    assert spec.contract is not None
    assert spec.contract.schema == {"type": "object", "required": ["t"]}


def test_a_schema_that_is_not_there_is_named(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("urls: [http://a.example/]\ncontract: {schema: missing.json}\n")
    with pytest.raises(InputError, match=r"missing\.json: No such file"):
        make_spec(job, {}, (), ())
