"""The flags, each with its `SHOAL_*` twin, shared by the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_JOB, _POLITE, _RUN = "What to fetch", "How politely", "How to run it"

Urls = Annotated[list[str] | None, typer.Argument(help="Where to start.", show_default=False)]
JobFile = Annotated[
    Path | None,
    typer.Option("--job", "-j", envvar="SHOAL_JOB", help="A YAML file with the job; flags win over it.",
                 rich_help_panel=_JOB),
]  # fmt: skip
UrlFile = Annotated[
    str | None,
    typer.Option("--file", "-f", envvar="SHOAL_FILE", help="URLs from a file, one a line; - for standard input.",
                 rich_help_panel=_JOB),
]  # fmt: skip
Pages = Annotated[
    int | None,
    typer.Option(envvar="SHOAL_PAGES", min=1, help="At most this many pages.", rich_help_panel=_JOB),
]
Depth = Annotated[
    int | None,
    typer.Option(envvar="SHOAL_DEPTH", min=0, help="At most this many links from a start URL.", rich_help_panel=_JOB),
]
Bytes = Annotated[
    str | None,
    typer.Option(
        "--bytes", envvar="SHOAL_BYTES", help="Stop when this much was received: 500MB.", rich_help_panel=_JOB
    ),
]
Seconds = Annotated[
    str | None,
    typer.Option("--seconds", envvar="SHOAL_SECONDS", help="Stop after this time: 90, 15m, 2h.", rich_help_panel=_JOB),
]
HostPages = Annotated[
    int | None,
    typer.Option(envvar="SHOAL_HOST_PAGES", min=1, help="At most this many pages of one host.", rich_help_panel=_JOB),
]
HostBytes = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_HOST_BYTES", help="At most about this much from one host.", rich_help_panel=_JOB),
]
HostSeconds = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_HOST_SECONDS", help="At most this long with one host.", rich_help_panel=_JOB),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(envvar="SHOAL_ALLOW", help="Follow only links that match this regular expression (several: any).",
                 rich_help_panel=_JOB),
]  # fmt: skip
Deny = Annotated[
    list[str] | None,
    typer.Option(envvar="SHOAL_DENY", help="Follow no links that match this.", rich_help_panel=_JOB),
]
Host = Annotated[
    list[str] | None,
    typer.Option("--host", envvar="SHOAL_HOST", help="Follow links to this host as well.", rich_help_panel=_JOB),
]
Sitemaps = Annotated[
    bool | None,
    typer.Option("--sitemaps", envvar="SHOAL_SITEMAPS", rich_help_panel=_JOB,
                 help="Fetch the pages of the start hosts' sitemaps, too: those of robots.txt, or /sitemap.xml."),
]  # fmt: skip
Sitemap = Annotated[
    list[str] | None,
    typer.Option("--sitemap", envvar="SHOAL_SITEMAP", help="Fetch the pages of this sitemap or feed, too.",
                 rich_help_panel=_JOB),
]  # fmt: skip
Since = Annotated[
    str | None,
    typer.Option("--since", envvar="SHOAL_SINCE", rich_help_panel=_JOB,
                 help="Leave out what sitemaps say has not changed since: 2026-01-01, or an age: 7d."),
]  # fmt: skip
Next = Annotated[
    str | None,
    typer.Option("--next", envvar="SHOAL_NEXT", rich_help_panel=_JOB,
                 help="Follow this link to the next page of a list: a.next, or XPath: //a\\[@rel='next']."),
]  # fmt: skip
FieldOption = Annotated[
    list[str] | None,
    typer.Option("--field", envvar="SHOAL_FIELD", rich_help_panel=_JOB,
                 help="Take NAME=SELECTOR from each page: title=h1, image=img@src, price:money=.price, name=//h1, "
                      "'name=json:items\\[0].name'; 'tags\\[]=.tag' for a list."),
]  # fmt: skip
Each = Annotated[
    str | None,
    typer.Option("--each", envvar="SHOAL_EACH", rich_help_panel=_JOB,
                 help="Take an item for each element that this finds, such as .card, or json:items; fields are in it."),
]  # fmt: skip
TakeOption = Annotated[
    list[str] | None,
    typer.Option("--take", envvar="SHOAL_TAKE", rich_help_panel=_JOB,
                 help="Take markdown, text, html, links or metadata of each page; markdown=page: of all of it."),
]  # fmt: skip
Spider = Annotated[
    str | None,
    typer.Option("--spider", envvar="SHOAL_SPIDER", rich_help_panel=_JOB,
                 help="Let a registered spider read the pages; see: shoal spiders."),
]  # fmt: skip
Param = Annotated[
    list[str] | None,
    typer.Option("--param", envvar="SHOAL_PARAM", rich_help_panel=_JOB,
                 help="Tell the spider NAME=VALUE; a value that is JSON is taken as such."),
]  # fmt: skip
DuplicatesOption = Annotated[
    str | None,
    typer.Option("--duplicates", envvar="SHOAL_DUPLICATES", rich_help_panel=_JOB,
                 help="Find pages that say what an earlier one says: mark, or skip, which follows no links of theirs."),
]  # fmt: skip
Changes = Annotated[
    bool | None,
    typer.Option("--changes", envvar="SHOAL_CHANGES", rich_help_panel=_JOB,
                 help="Keep a digest of what each page says, to be compared with other runs: shoal changes."),
]  # fmt: skip
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", envvar="SHOAL_IGNORE", rich_help_panel=_JOB,
                 help="What stands in elements that this CSS selector finds is no change; implies --changes."),
]  # fmt: skip
Name = Annotated[str | None, typer.Option(envvar="SHOAL_NAME", help="A label for the job.", rich_help_panel=_JOB)]
Header = Annotated[
    list[str] | None,
    typer.Option(envvar="SHOAL_HEADER", help="Send 'NAME: VALUE' with each request.", rich_help_panel=_JOB),
]
DropTracking = Annotated[
    bool | None,
    typer.Option("--drop-tracking", envvar="SHOAL_DROP_TRACKING", help="Drop utm_* and the like from URLs.",
                 rich_help_panel=_JOB),
]  # fmt: skip
Nofollow = Annotated[
    bool | None,
    typer.Option("--nofollow", envvar="SHOAL_NOFOLLOW", rich_help_panel=_JOB,
                 help="Leave out links marked rel=nofollow, and those of pages that say so."),
]  # fmt: skip
Noindex = Annotated[
    bool | None,
    typer.Option("--noindex", envvar="SHOAL_NOINDEX", help="Leave out pages that are marked noindex.",
                 rich_help_panel=_JOB),
]  # fmt: skip
Browser = Annotated[
    bool,
    typer.Option("--browser", envvar="SHOAL_RENDER", rich_help_panel=_JOB,
                 help="Render every page in a browser: for sites that are made by JavaScript."),
]  # fmt: skip
Auto = Annotated[
    bool,
    typer.Option("--auto", envvar="SHOAL_AUTO", rich_help_panel=_JOB,
                 help="Render the pages that need it, and only those."),
]  # fmt: skip
Wait = Annotated[
    str | None,
    typer.Option("--wait", envvar="SHOAL_WAIT", rich_help_panel=_JOB,
                 help="In the browser, wait for a selector, for idle, or for a time: .price, idle, 2s."),
]  # fmt: skip
Screenshot = Annotated[
    str | None,
    typer.Option("--screenshot", envvar="SHOAL_SCREENSHOT", rich_help_panel=_JOB,
                 help="Keep a picture of each rendered page: view, full, or a selector."),
]  # fmt: skip
Pdf = Annotated[
    bool | None,
    typer.Option("--pdf", envvar="SHOAL_PDF", help="Keep a print of each rendered page.", rich_help_panel=_JOB),
]
RateOption = Annotated[
    str | None,
    typer.Option("--rate", envvar="SHOAL_RATE", rich_help_panel=_POLITE,
                 help="Requests a second to one host: 4, 30/m, or unlimited for hosts that are yours. [default: what "
                      "robots.txt asks for, or 4]"),
]  # fmt: skip
ParallelOption = Annotated[
    str | None,
    typer.Option("--parallel", envvar="SHOAL_PARALLEL", rich_help_panel=_POLITE,
                 help="Requests at once to one host. [default: 2; unlimited with --rate unlimited]"),
]  # fmt: skip
Robots = Annotated[
    bool | None,
    typer.Option("--robots/--no-robots", envvar="SHOAL_ROBOTS", help="Obey robots.txt. [default: robots]",
                 rich_help_panel=_POLITE),
]  # fmt: skip
Proxy = Annotated[
    list[str] | None,
    typer.Option("--proxy", envvar="SHOAL_PROXY", rich_help_panel=_POLITE, show_default=False,
                 help="Fetch through this proxy: http://user:password@host:port, https, socks5 or socks5h; several "
                      "take turns. Others can see what stands on a command line; a job file keeps secrets better."),
]  # fmt: skip
Proxies = Annotated[
    str | None,
    typer.Option("--proxies", envvar="SHOAL_PROXIES", rich_help_panel=_POLITE,
                 help="Fetch through the pool of this name, of the file that SHOAL_PROXIES_FILE names."),
]  # fmt: skip
Retries = Annotated[
    int | None,
    typer.Option(envvar="SHOAL_RETRIES", min=0, help="Tries after the first. [default: 3]", rich_help_panel=_POLITE),
]
Timeout = Annotated[
    float | None,
    typer.Option(envvar="SHOAL_TIMEOUT", help="Seconds for a whole fetch. [default: 30]", rich_help_panel=_POLITE),
]
LaneOption = Annotated[
    str | None,
    typer.Option("--lane", envvar="SHOAL_LANE", help="high, batch or slow. [default: batch]", rich_help_panel=_RUN),
]
Weight = Annotated[
    float | None,
    typer.Option(
        envvar="SHOAL_WEIGHT", help="Share against other jobs of the lane. [default: 1]", rich_help_panel=_RUN
    ),
]
Archive = Annotated[
    bool | None,
    typer.Option("--archive/--no-archive", envvar="SHOAL_ARCHIVE", rich_help_panel=_RUN,
                 help="Keep raw responses in the WARC archive. [default: archive]"),
]  # fmt: skip
Keep = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_KEEP", rich_help_panel=_RUN,
                 help="Remove the job this long after its end: 30d, or forever. [default: what SHOAL_KEEP_DAYS says]"),
]  # fmt: skip
Previous = Annotated[
    str | None,
    typer.Option("--previous", envvar="SHOAL_PREVIOUS", rich_help_panel=_JOB,
                 help="Do not fetch again what has not changed since this job, or since the last one of this --name: "
                      "JOB, or last."),
]  # fmt: skip
Revisit = Annotated[
    str | None,
    typer.Option("--revisit", envvar="SHOAL_REVISIT", rich_help_panel=_JOB,
                 help="Ask for each page as often as it changes, within this span: 1h..30d, or true."),
]  # fmt: skip
MaxAge = Annotated[
    str | None,
    typer.Option("--max-age", envvar="SHOAL_MAX_AGE", rich_help_panel=_JOB,
                 help="Use pages that any job has stored at most this long ago: 1d."),
]  # fmt: skip
Workers = Annotated[
    int,
    typer.Option(envvar="SHOAL_WORKERS", min=0, max=64, rich_help_panel=_RUN,
                 help="Worker processes to bring along; 0 leaves the work to others."),
]  # fmt: skip
Detach = Annotated[
    bool,
    typer.Option("--detach", envvar="SHOAL_DETACH", rich_help_panel=_RUN,
                 help="Submit the job, print its id and leave it to running workers."),
]  # fmt: skip
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", envvar="SHOAL_OUTPUT", rich_help_panel=_RUN,
                 help="Write results here: .jsonl and .csv as they come, .parquet and .sqlite when the job has ended; "
                      "s3://bucket/file.parquet (gs, az); - for standard output."),
]  # fmt: skip
Deliver = Annotated[
    str | None,
    typer.Option("--deliver", envvar="SHOAL_DELIVER", rich_help_panel=_RUN,
                 help="Deliver the results there when the job has ended: s3://bucket/prefix/ (gs, az), "
                      "file:///folder/, postgresql://host/database/table."),
]  # fmt: skip
Format = Annotated[
    str | None,
    typer.Option("--format", envvar="SHOAL_FORMAT", help="jsonl, csv, parquet or sqlite.", rich_help_panel=_RUN),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", envvar="SHOAL_QUIET", help="No progress.", rich_help_panel=_RUN)]
Json = Annotated[
    bool,
    typer.Option("--json", envvar="SHOAL_JSON", help="For programs: JSON on standard output.", rich_help_panel=_RUN),
]
Job = Annotated[str, typer.Argument(help="A job's id, or its first letters.", show_default=False)]
