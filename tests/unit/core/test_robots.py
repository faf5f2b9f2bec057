"""robots.txt by RFC 9309: who is meant, which rule wins, and on which line it stands."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from protego import Protego

from shoal.core import rulebook
from shoal.core.robots import EVERYTHING, MAX_BYTES, MAX_SITEMAPS, Robots, parse, version_of
from shoal.core.rulebook import FREE, MAX_RULES, MAX_WILDCARDS, SHOWN_CHARS, Verdict
from shoal.core.url import parse as parse_url

RFC = b"""\
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


def judge(text: str, target: str, agent: str = "Shoal") -> Verdict:
    return parse(text.encode(), agent).judge(target)


def for_all(*rules: str) -> Robots:
    return parse("\n".join(("User-agent: *", *rules)).encode())


@pytest.mark.parametrize(
    ("agent", "target", "allowed"),
    [
        ("foobot", "/", False),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("foobot", "/example/other.gif", False),
        ("barbot", "/example/page.html", False),
        ("bazbot", "/example/page.html", False),
        ("barbot", "/example/picture.gif", True),
        ("quxbot", "/example/page.html", True),
        ("other", "/example/page.html", False),
        ("other", "/publications/", True),
        ("other", "/publications/picture.gif", True),
        ("other", "/public/picture.gif", False),
        ("other", "/public/picture.gif?x", True),
    ],
)
def test_the_example_of_the_rfc_is_understood(agent: str, target: str, allowed: bool) -> None:
    assert parse(RFC, agent).judge(target).allowed is allowed


def test_the_longest_match_of_the_rfcs_example_wins() -> None:
    text = "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n"
    assert judge(text, "/example/page/disallowed.gif", "foobot") == Verdict(
        False, 3, "Disallow: /example/page/disallowed.gif"
    )
    assert judge(text, "/example/page/", "foobot") == Verdict(True, 2, "Allow: /example/page/")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
        ("/foo/bar?baz=https%3a%2f%2Ffoo.bar", "/foo/bar?baz=https://foo.bar"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%e3%83%84", "/foo/bar/ツ"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/foo/bar/baz", "/foo/bar/%62%61%7a"),
        ("/a b", "/a%20b"),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
        ("/path/foo-%24", "/path/foo-$"),
        ("/100%", "/100%"),
        ("/*?u=%2F", "/x?u=/"),
        ("/x?*u=%2F", "/x?a&u=/"),
    ],
)
def test_spellings_that_mean_the_same_are_the_same(path: str, target: str) -> None:
    assert not for_all(f"Disallow: {path}").judge(target).allowed


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/a%2Fb", "/a/b"),
        ("/a/b", "/a%2fb"),
        ("/a?b", "/a%3Fb"),
        ("/%2541", "/A"),
        ("/%2541", "/%41"),
        ("/%2A", "/x"),
        ("/a%24", "/a"),
        ("/A", "/a"),
        ("/a$b", "/a"),
    ],
)
def test_what_means_another_path_stays_apart(path: str, target: str) -> None:
    assert for_all(f"Disallow: {path}").judge(target) == FREE


@pytest.mark.parametrize(
    ("path", "target", "fits"),
    [
        ("/fish", "/fish.html", True),
        ("/fish", "/Fish", False),
        ("/fish/", "/fish", False),
        ("/fish*", "/fishheads/yummy.html", True),
        ("/*.php", "/folder/any.php.file.html", True),
        ("/*.php", "/windows.PHP", False),
        ("/*.php$", "/folder/filename.php", True),
        ("/*.php$", "/filename.php?parameters", False),
        ("/*.php$", "/filename.php5", False),
        ("/fish*.php", "/fishheads/catfish.php?parameters", True),
        ("/$", "/", True),
        ("/$", "/x", False),
        ("/a$", "/a", True),
        ("/a$b", "/a$b", True),
        ("/a*$", "/abc", True),
        ("/a*a$", "/a", False),
        ("/a*a$", "/aa", True),
        ("/*ab*ab$", "/ab", False),
        ("/*ab*ab$", "/xabxabxab", True),
        ("/**a", "/xa", True),
        ("*", "/x", True),
        ("*$", "/x", True),
        ("*/x", "/a/x", True),
        ("fish", "/fish", False),
        ("http://a.example/fish", "/fish", False),
    ],
)
def test_patterns_fit_as_search_engines_say(path: str, target: str, fits: bool) -> None:
    assert for_all(f"Disallow: {path}").judge(target).allowed is not fits


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        (("Disallow: /a", "Allow: /a"), 3),
        (("Allow: /a", "Disallow: /a"), 2),
        (("Allow: /a/", "Disallow: /*b"), 2),
        (("Allow: /*b", "Disallow: /a/"), 2),
        (("Disallow: /a/", "Allow: /a", "Disallow: /"), 2),
        (("Allow: /$", "Disallow: /"), 3),
        (("Disallow: /*/b", "Allow: /a/"), 2),
        (("Allow: /x", "Disallow: /a", "Disallow: /a"), 3),
        (("Disallow: /**", "Disallow: /a"), 2),
        (("Allow:", "Disallow: /a"), 3),
    ],
)
def test_the_longest_rule_wins_and_allow_wins_a_tie(rules: tuple[str, ...], line: int) -> None:
    assert for_all(*rules).judge("/a/b").line == line


@pytest.mark.parametrize(
    ("text", "target", "allowed"),
    [
        ("User-agent: *\nDisallow:", "/x", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Shoal\nDisallow: /x", "/y", True),
        ("User-agent: Shoal\nDisallow: /\n\nUser-agent: *\nDisallow:", "/y", False),
        ("User-agent: sHOAL\nDisallow: /", "/y", False),
        ("User-agent: Shoal/2.1 (+http://x)\nDisallow: /", "/y", False),
        ("User-agent: * # all\nDisallow: /", "/y", False),
        ("User-agent: Shoalbot\nDisallow: /", "/y", True),
        ("User-agent: Sho\nDisallow: /", "/y", True),
        ("User-agent: Shoal-News\nDisallow: /", "/y", True),
        ("User-agent: Other\nUser-agent: Shoal\nDisallow: /", "/y", False),
        ("User-agent: Other\nDisallow: /a\nUser-agent: Shoal\nDisallow: /b", "/a", True),
        ("User-agent: Shoal\n\nDisallow: /", "/y", False),
        ("User-agent:\nDisallow: /", "/y", True),
        ("Disallow: /\nUser-agent: *\nAllow: /x", "/y", True),
        ("User-agent: *\nDisallow /y", "/y", False),
        ("USER-AGENT:*\ndisAllow:/y#comment", "/y", False),
        ("  User-agent : *\t\n\tDisallow  :  /y  ", "/y", False),
        ("User agent: *\nDissallow: /y", "/y", False),
        ("<!doctype html><p>Not here: /y</p>", "/y", True),
        ("", "/y", True),
    ],
)
def test_the_group_that_names_us_counts_and_else_the_one_for_all(text: str, target: str, allowed: bool) -> None:
    assert judge(text, target).allowed is allowed


def test_groups_of_one_agent_are_one() -> None:
    text = "User-agent: Shoal\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n\nUser-agent: shoal\nDisallow: /b\n"
    assert [judge(text, target).line for target in ("/a", "/b", "/c")] == [2, 8, 0]


@pytest.mark.parametrize("other", ["Sitemap: http://a.example/s.xml", "Host: a.example", "Crawl-delay: 3", "Foo: bar"])
def test_records_that_the_rfc_does_not_know_do_not_end_a_group(other: str) -> None:
    text = f"User-agent: Shoal\n{other}\nUser-agent: Other\n{other}\nDisallow: /a\n{other}\nDisallow: /b\n"
    for agent in ("Shoal", "Other"):
        assert [judge(text, target, agent).line for target in ("/a", "/b")] == [5, 7]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\r\n"])
def test_lines_are_counted_as_editors_do(end: str) -> None:
    text = end.join(["# \u2028 \x0b \x0c \x85 is no line end", "User-agent: *", "", "Disallow: /x  # why not"])
    lines = 7 if end == "\n\r\n" else 4
    assert judge(text, "/x") == Verdict(False, lines, "Disallow: /x")


def test_a_verdict_names_its_line_in_words() -> None:
    assert for_all("", "Disallow: /private/").judge("/private/1").named == "line 3: Disallow: /private/"
    assert FREE.named == ""


def test_a_rule_is_shown_without_tricks_and_not_at_length() -> None:
    shown = for_all("Disallow: /\x1b[31m\u202ea\x00*").judge("/%1b[31m\u202ea%00").rule
    assert shown == "Disallow: /[31ma*"
    assert len(for_all("Disallow: /*" + "a" * 1000).judge("/" + "a" * 1000).rule) == SHOWN_CHARS


@pytest.mark.parametrize("target", ["/robots.txt", "/robots.txt?x"])
def test_robots_txt_itself_is_always_allowed(target: str) -> None:
    robots = for_all("Disallow: /")
    assert robots.judge(target) == FREE
    assert not robots.judge("/robots.txt.bak").allowed


def test_no_file_allows_everything() -> None:
    assert EVERYTHING.judge("/x") == parse(b"").judge("/x") == FREE
    assert (EVERYTHING.crawl_delay(), EVERYTHING.sitemaps) == (None, ())


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbfUser-agent: *\nDisallow: /caf\xc3\xa9",
        b"User-agent: *\nDisallow: /caf\xe9",
        b"# \xff\nUser-agent: *\nDisallow: /caf\xc3\xa9",
        b"\xef\xbb\xbfUser-agent: *\n# \xff\nDisallow: /caf\xc3\xa9",
    ],
)
def test_any_bytes_can_be_read(body: bytes) -> None:
    assert not parse(body).judge(parse_url("http://a.example/café").target).allowed


def test_a_line_counts_when_it_ends_within_500_kib() -> None:
    start, rule = b"User-agent: *\n", b"Disallow: /private"
    filler = b"#" * (MAX_BYTES - len(start) - len(rule) - 1) + b"\n"
    assert len(start + filler + rule) == MAX_BYTES
    assert not parse(start + filler + rule).judge("/private").allowed
    assert not parse(start + filler[1:] + rule + b"\n" + b"Allow: /private\n" * 10).judge("/private").allowed


def test_a_line_that_is_cut_off_does_not_count() -> None:
    start = b"User-agent: *\nDisallow: /b\n"
    filler = b"#" * (MAX_BYTES - len(start) - len("Disallow: /") - 1) + b"\n"
    robots = parse(start + filler + b"Disallow: /private\n")
    assert [robots.judge(target).line for target in ("/a", "/private", "/b")] == [0, 0, 2]
    assert parse(b"U" * MAX_BYTES * 2).judge("/") == FREE


def test_rules_for_others_take_no_room_from_ours() -> None:
    others = "\n".join(["User-agent: other", *(f"Disallow: /*{number}" for number in range(20_000))])
    robots = parse(f"{others}\nUser-agent: *\nDisallow: /private\n".encode())
    assert not robots.judge("/private/1").allowed
    assert robots.rules == 1


@pytest.mark.parametrize(
    ("rule", "most"),
    [
        ("Disallow: /{}", MAX_RULES),
        ("Disallow: /*{}", MAX_WILDCARDS),
        ("Disallow: /{}$", MAX_WILDCARDS),
        ("Disallow: /*/*{}*$", MAX_WILDCARDS // 4),
    ],
)
def test_a_file_ends_with_the_first_rule_that_is_too_much(rule: str, most: int) -> None:
    """Else 45,000 patterns would be asked about each URL, and be kept."""
    text = "\n".join(rule.format(f"a{number}-") for number in range(most + 1))
    robots = for_all(text, "Disallow: /private")
    assert robots.rules == most
    slash = "/" if "/*/" in rule else ""
    last, beyond = (f"/{slash}a{number}-" for number in (most - 1, most))
    assert [robots.judge(path).line for path in (last, beyond, "/private")] == [most + 1, 0, 0]


def test_bounds_hold_for_all_groups_of_an_agent_together() -> None:
    half = "User-agent: *\n" + "\n".join(f"Disallow: /{number}" for number in range(MAX_RULES // 2 + 1))
    assert parse(f"{half}\n{half.replace('/', '/x')}".encode()).rules == MAX_RULES


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("0", 0.0),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("9" * 400, None),
        ("1_0", None),
        ("٣", None),
        ("10 s", None),
        ("", None),
    ],
)
def test_a_crawl_delay_is_a_number_of_seconds(value: str, delay: float | None) -> None:
    assert for_all(f"Crawl-delay: {value}", "Disallow: /x").crawl_delay() == delay


def test_a_crawl_delay_is_for_those_who_are_named_before_it() -> None:
    text = b"User-agent: a\nUser-agent: b\nCrawl-delay: 9\n\nUser-agent: *\nDisallow: /x\nCrawl-delay: 2\n"
    assert [parse(text, agent).crawl_delay() for agent in ("a", "b", "Shoal")] == [9.0, 9.0, 2.0]


def test_the_longest_of_several_crawl_delays_counts_and_only_of_ones_own_group() -> None:
    text = b"User-agent: Shoal\nCrawl-delay: 3\nCrawl-delay: 1\nDisallow:\nUser-agent: *\nCrawl-delay: 60\n"
    assert parse(text, "shoal/1.0").crawl_delay() == 3.0
    assert parse(b"User-agent: *\nCrawl-delay: 60\nDisallow:\nUser-agent: Shoal\nDisallow:\n").crawl_delay() is None


def test_sitemaps_are_collected_wherever_they_stand() -> None:
    text = """\
Sitemap: https://a.example/1.xml
User-agent: Other
SITEMAP:http://b.example/2.xml.gz # compressed
Disallow: /
Sitemap: HTTPS://A.example:443/1.xml
Sitemap: /relative.xml
Sitemap: ftp://a.example/3.xml
Sitemap: https://user:secret@a.example/4.xml
Sitemap:
"""
    assert parse(text.encode()).sitemaps == ("https://a.example/1.xml", "http://b.example/2.xml.gz")


def test_there_is_a_cap_on_sitemaps() -> None:
    text = "".join(f"Sitemap: https://a.example/{number}\n" for number in range(MAX_SITEMAPS + 5))
    sitemaps = parse(text.encode()).sitemaps
    assert (len(sitemaps), sitemaps[-1]) == (MAX_SITEMAPS, f"https://a.example/{MAX_SITEMAPS - 1}")


class Counted(str):
    """A target that counts how often it is looked through."""

    __slots__ = ("looks",)

    def find(self, *args: object) -> int:
        self.looks = getattr(self, "looks", 0) + 1
        return super().find(*args)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["b", "b$", "*b*", "b*$"])
def test_a_pattern_full_of_wildcards_goes_through_a_path_once(end: str) -> None:
    stars = 40
    target = Counted("/" + "a" * 1900)
    assert for_all("Disallow: /" + "*a" * stars + "*" + end).judge(target).allowed
    assert 0 < target.looks <= stars + 2


_PIECES = st.lists(st.text("ab", max_size=9), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(
    patterns=st.lists(st.tuples(_PIECES, st.sampled_from(["", "$"])), min_size=1, max_size=5),
    target=st.text("ab/", max_size=40),
)
def test_a_path_whose_parts_are_marked_is_judged_alike(patterns: list[tuple[list[str], str]], target: str) -> None:
    robots = for_all(*(f"Disallow: /{'*'.join(pieces)}{end}" for pieces, end in patterns))
    plainly = robots.judge("/" + target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rulebook, "MUCH_WORK", 0)
        patch.setattr(rulebook, "LONG_PATH", 0)
        assert robots.judge("/" + target) == plainly


def test_many_patterns_and_a_long_path_are_not_compared_letter_by_letter() -> None:
    """`find` would try each of the path's letters with half of each pattern: 200 million comparisons."""
    rules = [f"Disallow: /*{'a' * 60}{letter}{'a' * 59}" for letter in "bc" * (MAX_WILDCARDS // 2)]
    target = Counted("/" + "a" * 1900)
    assert for_all(*rules).judge(target).allowed
    assert not hasattr(target, "looks")


def test_a_version_is_the_beginning_of_the_digest_of_the_text() -> None:
    assert version_of(b"x") == hashlib.sha256(b"x").hexdigest()[:16]
    assert version_of(b"") == ""


# What both take for the same: no `?` and no escapes of reserved characters, which the library gives another length;
# no `$` in targets and no index.html, for which it makes rules of its own.
_PIECE = st.sampled_from(["a", "b", "ab", "/", "é", "%C3%A9", "%c3%a9", "%61", "-", "."])
_TARGET = st.lists(_PIECE, max_size=8).map(lambda pieces: "/" + "".join(pieces))
_PATH = st.tuples(
    st.sampled_from(["/", "/", "*"]),
    st.lists(st.one_of(_PIECE, st.just("*")), max_size=6).map("".join),
    st.sampled_from(["", "", "$"]),
).map("".join)
_RULE = st.tuples(st.sampled_from(["Allow", "Disallow", "disallow "]), st.one_of(_PATH, _PATH, st.just("")))
_AGENT = st.sampled_from(["*", "shoal", "Shoal", "Other", "Another"])
_GROUP = st.tuples(st.lists(_AGENT, min_size=1, max_size=3), st.lists(_RULE, min_size=1, max_size=6))


@settings(max_examples=500, deadline=None)
@example(groups=[(["*"], [("Allow", "/a"), ("Disallow", "/*")])], target="/a")
@example(groups=[(["*"], [("Allow", "/"), ("Allow", "/a"), ("Disallow", "/$")])], target="/")
@given(groups=st.lists(_GROUP, max_size=4), target=_TARGET)
def test_verdicts_are_those_of_another_reader(
    groups: list[tuple[list[str], list[tuple[str, str]]]], target: str
) -> None:
    lines: list[str] = []
    for agents, rules in groups:
        lines += [f"User-agent: {agent}" for agent in agents]
        lines += [f"{key}: {path}" for key, path in rules]
    text = "\n".join(lines)
    verdict = judge(text, target)
    assert verdict.allowed is Protego.parse(text).can_fetch("http://h.example" + target, "Shoal")
    if verdict.line:
        key, _, path = lines[verdict.line - 1].partition(":")
        assert verdict.rule == f"{key.strip().capitalize()}: {path.strip()}"


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=300), target=st.text(max_size=40))
def test_no_bytes_are_too_strange(body: bytes, target: str) -> None:
    text = b"User-agent: *\nDisallow: /x\n" + body
    assert parse(text).judge("/" + target).line >= 0
    assert parse(text, "unnamed by chance").judge("/x").line > 0


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("User-agent: *\nDisallow: /a\n", "*"),
        ("User-agent: *\nDisallow: /a\nUser-agent: shoal/2\nDisallow: /b\n", "Shoal"),
        ("User-agent: Googlebot\nDisallow: /\n", ""),
        ("", ""),
    ],
)
def test_it_is_known_whom_the_rules_are_for(text: str, group: str) -> None:
    assert parse(text.encode()).group == group
