"""What a job asks for of a page's content."""

from __future__ import annotations

import json

import pytest

from shoal.core.spec import JobSpec, read_spec
from shoal.errors import BadSpec

URLS = ["https://h.example/"]


@pytest.mark.parametrize(
    ("given", "formats"),
    [
        (["markdown", "metadata"], {"markdown": "main", "metadata": "page"}),
        (["markdown=page", "text"], {"markdown": "page", "text": "main"}),
        ([{"html": "page"}, "links"], {"html": "page", "links": "page"}),
        ({"links": "main", "text": "page"}, {"links": "main", "text": "page"}),
        ("text", {"text": "main"}),
        ([], {}),
    ],
)
def test_formats_are_a_list_or_say_what_each_is_of(given: object, formats: dict[str, str]) -> None:
    spec = read_spec({"urls": URLS, "formats": given})
    assert spec.formats == formats
    assert spec.takes_items is bool(formats)
    assert json.loads(spec.extraction or "{}") == ({"formats": formats} if formats else {})
    assert JobSpec.model_validate(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["markdow"], "formats: there is no format 'markdow'; did you mean 'markdown'?"),
        (["pdf"], "formats: there is no format 'pdf'; there are markdown, text, html, links, metadata"),
        ({"text": "body"}, "formats: text: 'body' is neither main, its main content, nor page, all of it"),
        (["metadata=main"], "formats: metadata is of the page: write metadata alone"),
        (7, "formats: a list of formats is needed: markdown, text, html, links, metadata"),
        ([{"a": 1, "b": 2}], "formats: there is no format"),
    ],
)
def test_what_is_wrong_with_formats_is_said(given: object, message: str) -> None:
    with pytest.raises(BadSpec) as refused:
        read_spec({"urls": URLS, "formats": given})
    assert message in str(refused.value)


def test_a_field_and_a_format_cannot_have_one_name() -> None:
    with pytest.raises(BadSpec, match="formats: there is a field 'text' too: give it another name"):
        read_spec({"urls": URLS, "fields": {"text[]": "p"}, "formats": ["text"]})
