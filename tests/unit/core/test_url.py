"""One canonical form for every way to write an address, and fingerprints that never change."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.core.url import MAX_URL_CHARS, Base, Url, fingerprint, parse, parse_all
from shoal.errors import BadUrl


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTP://EXAMPLE.com/Path", "http://example.com/Path"),
        ("  http://a/ \n", "http://a/"),
        ("http://a?b", "http://a/?b"),
        ("http://a:80/", "http://a/"),
        ("https://a:443/", "https://a/"),
        ("http://a:443/", "http://a:443/"),
        ("https://a:80/", "https://a:80/"),
        ("http://a:/", "http://a/"),
        ("http://a:08080/", "http://a:8080/"),
        ("http://a:65535/", "http://a:65535/"),
    ],
)
def test_scheme_host_and_port_have_one_form(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("http://a/#top", "http://a/"),
        ("http://a#top", "http://a/"),
        ("http://a/b?c#d?e", "http://a/b?c"),
        ("http://a/b?", "http://a/b"),
        ("http://a/b?#", "http://a/b"),
        ("http://a/b??", "http://a/b??"),
        ("http://a/b?&&", "http://a/b?&&"),
        ("http://a/b?c=", "http://a/b?c="),
        ("http://a/b?c", "http://a/b?c"),
    ],
)
def test_fragments_and_empty_queries_are_dropped_and_nothing_else_of_a_query(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("/b/../c/./d", "/c/d"),
        ("/../..", "/"),
        ("/.", "/"),
        ("/b/..", "/"),
        ("/b/.", "/b/"),
        ("/%2e%2E/b", "/b"),
        ("/b/%2e/c", "/b/c"),
        ("/b/c/.%2e/d", "/b/d"),
        ("/..;/b", "/..;/b"),
        ("/..%2Fb", "/..%2Fb"),
        ("/...", "/..."),
        ("/b//../c", "/b/c"),
    ],
)
def test_dot_segments_are_resolved_as_browsers_do(path: str, canonical: str) -> None:
    assert parse("http://a" + path).target == canonical


@pytest.mark.parametrize(
    ("target", "canonical"),
    [
        ("/%7euser/%7Euser", "/~user/~user"),
        ("/%41%2d%2E%5f?%61=%7a", "/A-._?a=z"),
        ("/%c3%a9", "/%C3%A9"),
        ("/é?é", "/%C3%A9?%C3%A9"),
        ("/a%2fb%2Fc", "/a%2Fb%2Fc"),
        ("/a%3fb%23c", "/a%3Fb%23c"),
        ("/?q=%2b%26%3d%23%20", "/?q=%2B%26%3D%23%20"),
        ("/%257e", "/%257e"),
        ("/%25%37%65", "/%257e"),
        ("/%", "/%"),
        ("/100%/x", "/100%/x"),
        ("/%4", "/%4"),
        ("/%zz%2", "/%zz%2"),
        ("/?%0", "/?%0"),
        ("/%e3%81", "/%E3%81"),
        ("/%00", "/%00"),
        ("/a b?c d", "/a%20b?c%20d"),
        ("/a+b?c+d", "/a+b?c+d"),
        ("/\"<>`{}|^'", "/%22%3C%3E%60%7B%7D|^'"),
        ("/?\"<>`{}|^'", "/?%22%3C%3E`{}|^%27"),
        ("/日本?語=本", "/%E6%97%A5%E6%9C%AC?%E8%AA%9E=%E6%9C%AC"),
    ],
)
def test_percent_encoding_has_one_form_where_both_mean_the_same(target: str, canonical: str) -> None:
    assert parse("http://a" + target).target == canonical


@pytest.mark.parametrize(
    ("target", "canonical"),
    [
        ("/%%37e", "/%%37e"),
        ("/%7%65", "/%7%65"),
        ("/%%32%65", "/%%32e"),
        ("/b/%%32e%%32e/c", "/b/%%32e%%32e/c"),
    ],
)
def test_decoding_never_completes_a_malformed_escape(target: str, canonical: str) -> None:
    assert parse("http://a" + target).target == canonical


@pytest.mark.parametrize(
    "target",
    [
        "/?b=2&a=1&b=1",
        "/?a=1&a=1",
        "//b//",
        "/b/",
        "/b",
        "/index.html",
        "/CaSe?CaSe=X",
        "/;jsessionid=1?x;y",
        "/?utm_source=x&gclid=1",
        "/a:b@c",
    ],
)
def test_what_a_server_may_tell_apart_stays_as_it_is(target: str) -> None:
    assert parse("http://a" + target).target == target


@pytest.mark.parametrize(
    ("target", "canonical"),
    [
        ("/?utm_source=x", "/"),
        ("/?a=1&utm_source=x&b=2", "/?a=1&b=2"),
        ("/?UTM_Campaign=x&GCLID=1&a=2", "/?a=2"),
        ("/?fbclid", "/"),
        ("/?utm_=x", "/?utm_=x"),
        ("/?xutm_source=1&utm_source2=1", "/?xutm_source=1&utm_source2=1"),
        ("/?gclid2=1&q=gclid", "/?gclid2=1&q=gclid"),
        ("/?b=2&a=1&b=1", "/?b=2&a=1&b=1"),
        ("/?&a&&b&", "/?&a&&b&"),
        ("/utm_source=x", "/utm_source=x"),
        ("/?utm%5Fsource=x&%67clid=1&a=%7e", "/?a=~"),
    ],
)
def test_tracking_parameters_are_dropped_when_asked(target: str, canonical: str) -> None:
    assert parse("http://a" + target, drop_tracking=True).target == canonical
    assert Base("http://a/", drop_tracking=True).join(target) == Url("http", "a", canonical)


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("faß.de", "xn--fa-hia.de"),
        ("münchen。de", "xn--mnchen-3ya.de"),
        ("💩.la", "xn--ls8h.la"),
        ("under_score.example", "under_score.example"),
        ("example.com.", "example.com"),
        ("example.com.:8080", "example.com:8080"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("1e3", "1e3"),
        ("[::1]", "[::1]"),
        ("[0:0:0:0:0:0:0:1]:8080", "[::1]:8080"),
        ("[2001:DB8::00A]", "[2001:db8::a]"),
        ("[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
    ],
)
def test_a_host_has_one_name(written: str, host: str) -> None:
    assert parse(f"http://{written}/").host == host


@pytest.mark.parametrize(
    ("text", "read_as", "word"),
    [
        ("http:a/b", "http://a/b", "without //"),
        ("http:/a/b", "http://a/b", "without //"),
        ("http:////a//b", "http://a//b", "without //"),
        ("http:/127.0.0.1/", "http://127.0.0.1/", "without //"),
        ("http://@a/", "http://a/", "an @"),
        ("http://:@a/", "http://a/", "an @"),
        ("http://a\\b\\..\\c", "http://a/c", "backslash"),
        ("http://a\\@b/", "http://a/@b/", "backslash"),
        ("http://a/b\\c", "http://a/b/c", "backslash"),
        ("http:\\\\a/", "http://a/", "backslash"),
        ("http://①②.com/", "http://12.com/", "unusual digits"),
        ("http://①②⑦.⓪.⓪.①/", "http://127.0.0.1/", "unusual form"),
        ("http://ex%61mple.com/", "http://example.com/", "escaped host"),
        ("http://127.0.0.%31/", "http://127.0.0.1/", "escaped host"),
        ("http://127.1/", "http://127.0.0.1/", "unusual form"),
        ("http://1.2.3/", "http://1.2.0.3/", "unusual form"),
        ("http://2130706433/", "http://127.0.0.1/", "unusual form"),
        ("http://0x7f.1:80/", "http://127.0.0.1/", "unusual form"),
        ("http://0177.0.0.01/", "http://127.0.0.1/", "unusual form"),
        ("http://0x/", "http://0.0.0.0/", "unusual form"),
        ("http://127。0。0。1/", "http://127.0.0.1/", "unusual form"),
    ],
)
def test_a_host_that_parsers_disagree_on_is_refused_and_a_link_to_it_read_as_browsers_do(
    text: str, read_as: str, word: str
) -> None:
    with pytest.raises(BadUrl, match=word):
        parse(text)
    assert str(Base("https://elsewhere.example/").join(text)) == read_as
    assert str(parse(read_as)) == read_as


def test_a_backslash_in_a_query_is_in_nobodys_way() -> None:
    assert str(parse("http://a/b?c=\\d")) == "http://a/b?c=\\d"


@pytest.mark.parametrize(
    "text",
    [
        "http://",
        "http://?",
        "http://./",
        "http://../",
        "http://a b/",
        "http://a%20b/",
        "http://a%00b/",
        "http://a<b/",
        "http://256.256.256.256/",
        "http://1.2.3.4.5/",
        "http://09.1/",
        "http://a.1/",
        "http://[::1/",
        "http://[::g]/",
        "http://[fe80::1%25eth0]/",
        "http://a:65536/",
        "http://a:x/",
        "http://xn--/",
        "http://a/\tb",
        "http://a/b\nc",
        "http://a/\x00",
        "http://a/\x7f",
        "http://a/\ud800",
        "http://\udfff.com/",
    ],
)
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(BadUrl):
        parse(text)


@pytest.mark.parametrize("char", ["\u200c", "\u200d", "\u00a0", "\u3000", "\ue000", "\U0001fae8"])
def test_a_submitted_url_may_hold_any_character_but_controls_and_surrogates(char: str) -> None:
    """Persian addresses hold U+200C, family emoji U+200D; new emoji are unknown to an older Python."""
    escaped = "".join(f"%{byte:02X}" for byte in char.encode())
    assert parse(f"http://a/x{char}y").target == f"/x{escaped}y"


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("mailto:someone@example.com", "mailto"),
        ("javascript:alert(1)", "javascript"),
        ("JavaScript://example.com/%0Aalert(1)", "javascript"),
        ("data:text/html,<p>", "data"),
        ("ftp://example.com/", "ftp"),
        ("file:///etc/passwd", "file"),
        ("ws://example.com/", "ws"),
        ("blob:http://example.com/1", "blob"),
        ("about:blank", "about"),
        ("tel:123", "tel"),
    ],
)
def test_other_schemes_are_refused_by_name(text: str, scheme: str) -> None:
    with pytest.raises(BadUrl, match=f"^only http and https can be fetched, not '{scheme}'$"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("example.com/a", "https://example.com/a"),
        ("www.example.com", "https://www.example.com"),
        ("//example.com/a", "https://example.com/a"),
        ("example.com:8443/a", "https://example.com:8443/a"),
        ("localhost:18731", "http://localhost:18731"),
        ("localhost:18731/a?b", "http://localhost:18731/a?b"),
        ("localhost", "http://localhost"),
        ("shop.localhost/a", "http://shop.localhost/a"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("[::1]:8080/a", "http://[::1]:8080/a"),
        ("192.168.1.7/a", "http://192.168.1.7/a"),
    ],
)
def test_a_url_without_its_scheme_gets_a_hint(text: str, hint: str) -> None:
    with pytest.raises(BadUrl) as caught:
        parse(text)
    assert str(caught.value) == f"not an absolute URL: {text!r}; did you mean {hint!r}?"


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_url_is_called_empty(text: str) -> None:
    with pytest.raises(BadUrl, match=r"^an empty URL$"):
        parse(text)


@pytest.mark.parametrize("text", ["http://user:secret@a/", "http://secret@a/", "http://user:@a/secret"])
def test_credentials_are_refused_and_the_host_is_named(text: str) -> None:
    with pytest.raises(BadUrl) as caught:
        parse(text)
    assert str(caught.value) == "URL with a user name or password in it; send them as a header instead: a"


@pytest.mark.parametrize(
    "text",
    [
        "http://user:secret@a/",
        "http://user:secret@[bad/",
        "http://user:se@secret@[bad/",
        "http:\\\\user:secret@[bad/",
        "http://user:secret@a/\x01",
        "http://user:secret@a/" + "x" * MAX_URL_CHARS,
        "1user:secret@a/",
        "//user:secret@a/",
    ],
)
def test_no_message_repeats_a_password(text: str) -> None:
    with pytest.raises(BadUrl) as caught:
        parse(text)
    assert "secret" not in str(caught.value)


def test_a_url_may_be_just_as_long_as_allowed() -> None:
    longest = "http://a/" + "x" * (MAX_URL_CHARS - len("http://a/"))
    assert str(parse(longest)) == longest
    with pytest.raises(BadUrl, match=r"^URL of 2001 characters; at most 2000 are allowed: http://a/x+…$"):
        parse(longest + "x")


def test_the_length_that_counts_is_that_of_the_canonical_url() -> None:
    """What was accepted once must be accepted again: `shoal page` parses stored URLs."""
    with pytest.raises(BadUrl):
        parse("http://a/" + "é" * 1000)
    assert Base("http://a.example/").join("x" * (MAX_URL_CHARS - 10)) is None


@pytest.mark.parametrize(
    "url", ["http://a.example/b/c?d", "http://a.example:8080/", "https://a.example", "http://a.example"]
)
@pytest.mark.parametrize("href", ["/x", "x/y", "../z", "?q=1", "//b.example/", "/x y", "https://c.example/#d"])
def test_a_base_that_is_read_late_joins_as_one_that_is_read_at_once(url: str, href: str) -> None:
    assert Base(url, canonical=True).join(href) == Base(url).join(href) is not None
    assert Base(url, canonical=True).rebase(href).join("/e") == Base(url).rebase(href).join("/e") is not None


ESCAPES = ["%2e", "%2E%2e", "%2", "%37", "%7e", "%25", "%2f", "//", "..", "utm_source=1", "utm%5fid=1", "gclid"]
PIECES = st.sampled_from([*"/.%eE7a~;:@?&=+# \\'\"<{|^é日", *ESCAPES])
NAMES = ["a", "A.Example", "example.com.", "example.com..", "a..b", "bücher.example", "xn--bcher-kva.example", "faß.de"]
NUMBERS = ["127.1", "0x7f.1", "0x7f.1..", "1.2.3.4.", "256.256.256.256..", "[::0001]", "%61.b", "①.example"]


def write(scheme: str, host: str, port: str, pieces: list[str]) -> str:
    return f"{scheme}://{host}{port}{'/' if pieces else ''}{''.join(pieces)}"


TEXTS = st.builds(
    write,
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(NAMES + NUMBERS),
    st.sampled_from(["", ":", ":80", ":443", ":8080", ":0"]),
    st.lists(PIECES, max_size=12),
)


@settings(max_examples=400, deadline=None, database=None)
@given(TEXTS, st.booleans())
@example("http://a/%%37e", False)
@example("http://a/%2%35", False)
@example("http://0x7f.1../", False)
@example("http://256.256.256.256../", False)
@example("http://a/?utm%5Fsource=1", True)
def test_canonicalisation_is_idempotent(text: str, drop_tracking: bool) -> None:
    try:
        once = parse(text, drop_tracking=drop_tracking)
    except BadUrl:
        return
    again = parse(str(once), drop_tracking=drop_tracking)
    assert again == once
    assert again.fingerprint == once.fingerprint == fingerprint(str(once))
    assert Base("http://elsewhere/x/y", drop_tracking=drop_tracking).join(str(once)) == once


@settings(max_examples=300, deadline=None, database=None)
@given(st.text(max_size=40), st.booleans())
def test_whatever_a_page_links_to_is_canonical_or_nothing(href: str, drop_tracking: bool) -> None:
    url = Base("https://h.example/a/b?c", drop_tracking=drop_tracking).join(href)
    if url is not None:
        assert parse(str(url), drop_tracking=drop_tracking) == url
        assert url.scheme in ("http", "https")
        assert url.target.startswith("/")
        assert str(url).isascii()
        assert " " not in str(url)


@pytest.mark.parametrize(
    ("canonical", "value"),
    [
        ("http://example.com/", -350646258024731386),
        ("https://example.com/", 1493557592560457051),
        ("http://example.com/a?b=1&a=2", 5238933950038575418),
        ("http://xn--bcher-kva.example/%C3%BC", 2230664991846430027),
        ("http://[::1]:8080/", -3743611024030278624),
    ],
)
def test_fingerprints_stay_what_they_were_in_every_stored_job(canonical: str, value: int) -> None:
    assert fingerprint(canonical) == value
    assert parse(canonical).fingerprint == value


@given(st.text(st.characters(codec="utf-8")))
@settings(max_examples=100, deadline=None, database=None)
def test_fingerprints_are_signed_64_bit_integers(text: str) -> None:
    assert -(2**63) <= fingerprint(text) < 2**63


def test_fingerprints_use_both_signs_and_do_not_collide_at_once() -> None:
    values = {fingerprint(f"http://a/{number}") for number in range(2000)}
    assert len(values) == 2000
    assert min(values) < -(2**62)
    assert max(values) > 2**62


@pytest.mark.parametrize(
    ("href", "joined"),
    [
        ("", "http://h/a/b?q"),
        (" ", "http://h/a/b?q"),
        ("#x", "http://h/a/b?q"),
        ("?", "http://h/a/b"),
        ("?x", "http://h/a/b?x"),
        ("c", "http://h/a/c"),
        ("/c", "http://h/c"),
        ("//o/c", "http://o/c"),
        ("../..", "http://h/"),
        ("../../../c", "http://h/c"),
        ("./c:d", "http://h/a/c:d"),
        ("1:2", "http://h/a/1:2"),
        ("http:c", "http://h/a/c"),
        ("http:?x", "http://h/a/b?x"),
        ("https:c", "https://c/"),
        ("HTTPS://O/c", "https://o/c"),
        ("\n\t c \r\n", "http://h/a/c"),
        ("c\td\ne\rf", "http://h/a/cdef"),
        ("ht\ntp://o/", "http://o/"),
        ("\x01c", "http://h/a/c"),
        ("c\x00d", "http://h/a/c%00d"),
        ("\\c", "http://h/c"),
        ("\\\\o\\c", "http://o/c"),
        ("..\\c", "http://h/c"),
        ("////o", "http://o/"),
        ("%7ec%zz", "http://h/a/~c%zz"),
        ("c d", "http://h/a/c%20d"),
        ("\u200dc", "http://h/a/%E2%80%8Dc"),
    ],
)
def test_links_are_joined_as_browsers_join_them(href: str, joined: str) -> None:
    assert str(Base("http://h/a/b?q#f").join(href)) == joined


@pytest.mark.parametrize(
    "href",
    [
        "javascript:void(0)",
        "java\nscript:alert(1)",
        "\tJavaScript:x",
        "mailto:a@b",
        "tel:1",
        "data:,x",
        "c:d",
        "ftp://o/",
        "//",
        "///",
        "http://",
        "http://[",
        "http://o:99999/",
        "http://user:secret@o/",
        "//user@o/",
        "//./",
        "\ud800",
        "/\udfff",
        "x" * (MAX_URL_CHARS + 1),
        "é" * 1000,
    ],
)
def test_links_that_cannot_be_fetched_are_no_links(href: str) -> None:
    assert Base("http://h/a/b").join(href) is None


@pytest.mark.parametrize(
    ("href", "joined"),
    [
        ("/z/", "http://h/z/c"),
        ("z", "http://h/a/c"),
        ("z/", "http://h/a/z/c"),
        ("//o/z/", "http://o/z/c"),
        ("https://o", "https://o/c"),
        (" \n/z/\t", "http://h/z/c"),
    ],
)
def test_a_page_may_move_its_base(href: str, joined: str) -> None:
    assert str(Base("http://h/a/b").rebase(href).join("c")) == joined


@pytest.mark.parametrize("href", ["http://[", "//", "\ud800", "javascript:void(0)", "data:text/html,x"])
def test_an_unusable_base_changes_nothing(href: str) -> None:
    assert str(Base("http://h/a/b").rebase(href).join("c")) == "http://h/a/c"


def test_a_moved_base_still_drops_tracking_parameters() -> None:
    assert str(Base("http://h/", drop_tracking=True).rebase("/z/").join("c?gclid=1&d=2")) == "http://h/z/c?d=2"


@pytest.mark.parametrize("text", ["", "a/b", "http://", "\ud800"])
def test_a_base_must_be_absolute(text: str) -> None:
    with pytest.raises(BadUrl, match=r"^not an absolute URL"):
        Base(text)


@pytest.mark.parametrize(
    ("text", "host", "hostname", "origin"),
    [
        ("https://a.example/x", "a.example", "a.example", "https://a.example"),
        ("http://a.example:8080/x", "a.example:8080", "a.example", "http://a.example:8080"),
        ("http://[::1]/", "[::1]", "[::1]", "http://[::1]"),
        ("http://[::1]:8080/", "[::1]:8080", "[::1]", "http://[::1]:8080"),
        ("http://127.0.0.1:81/", "127.0.0.1:81", "127.0.0.1", "http://127.0.0.1:81"),
    ],
)
def test_the_parts_of_a_url(text: str, host: str, hostname: str, origin: str) -> None:
    url = parse(text)
    assert (url.host, url.hostname, url.origin) == (host, hostname, origin)


def test_http_and_https_of_one_host_share_their_politeness_key() -> None:
    assert parse("http://a.example/").host == parse("https://A.example:443/x").host == "a.example"


def test_a_list_is_parsed_in_order_and_doubles_stay() -> None:
    assert parse_all(["http://b/", "http://a/?gclid=1", "http://b"], drop_tracking=True) == [
        Url("http", "b", "/"),
        Url("http", "a", "/"),
        Url("http", "b", "/"),
    ]
    assert parse_all([]) == []


def test_a_list_is_refused_with_all_that_is_wrong_in_it() -> None:
    with pytest.raises(BadUrl) as caught:
        parse_all(["http://a/", "", "mailto:x@y"])
    assert str(caught.value) == (
        "2 of 3 URLs cannot be used:\n  - an empty URL\n  - only http and https can be fetched, not 'mailto'"
    )


@pytest.mark.parametrize(("bad", "told"), [(10, ""), (11, "\n  … and 1 more"), (500, "\n  … and 490 more")])
def test_a_long_list_of_problems_is_cut(bad: int, told: str) -> None:
    with pytest.raises(BadUrl) as caught:
        parse_all([""] * bad)
    assert str(caught.value) == f"{bad} of {bad} URLs cannot be used:" + "\n  - an empty URL" * 10 + told


@settings(max_examples=500, deadline=None, database=None)
@given(st.text(alphabet="/.~_-aZ9\\%?#:@ \t\n", max_size=12))
@example("/a/b.html")
@example("/a/../b")
@example("/.a/..b")
@example("//other/a")
@example("/\\other/a")
@example("/a//b")
@example("/a\n")
def test_a_link_that_needs_no_parser_means_what_the_parser_says(rest: str) -> None:
    href = f"/{rest}"
    for page in ("https://h.example:8443/a/b?c", "http://h.example./x", "http://user@h.example/", "data:text/html,x"):
        base = Base(page)
        # A space in front is dropped by the parser, and keeps the link from the quick way.
        expected = Base(page).join(f" {href}")
        assert (base.join(href), base.join(href)) == (expected, expected)
        assert base.join_text(href) == (str(expected) if expected else None)


@given(
    st.sampled_from(("http", "https", "HTTP")),
    st.text(alphabet="a0-.Zx", max_size=12),
    st.sampled_from(("example", "xn--p1ai", "1", "0x1", "com.", "com:80")),
    st.text(alphabet="/.~_-aZ9%?#:@=&+,;'|[]{}^ \t", max_size=16),
)
@example("https", "a", "xn--p1ai", "/")
@example("https", "127.0.0", "1", "/")
@example("https", "a..b", "example", "/")
@example("http", "-a-", "example", "/b/?c=d&e=f:g;h,i+j")
@example("http", "a", "example", "/b/../c")
@example("http", "a", "example", "/b?")
def test_a_url_that_needs_no_parser_means_what_the_parser_says(scheme: str, name: str, end: str, rest: str) -> None:
    text = f"{scheme}://{name}.{end}{rest}"
    try:
        told = parse(text)
    except BadUrl:
        return
    # A blank at its end is all that sends a URL past the short way.
    assert told == parse(text + " ")


def test_a_link_that_needs_no_parser_can_be_too_long() -> None:
    base = Base("http://h/")
    most = "/" + "x" * (MAX_URL_CHARS - len("http://h/"))
    assert str(base.join(most)) == base.join_text(most) == f"http://h{most}"
    assert (base.join(f"{most}x"), base.join_text(f"{most}x")) == (None, None)
