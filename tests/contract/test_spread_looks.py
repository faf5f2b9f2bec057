"""Looks at the servers of a frontier in slots: what one has lost costs no more than that, whoever else is away."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from shoal.core.model import JobState
from shoal.errors import InputError
from shoal.frontier.link_lines import Line
from shoal.frontier.moving import Move
from shoal.frontier.shards import Shards
from shoal.frontier.slots import SLOTS, slot_of
from shoal.frontier.spread_rebuild import SpreadRebuild
from shoal.wiring import open_platform, sync_hosts
from tests.contract.api import Desk, a_desk
from tests.contract.spread_ground import MANY, rest_little
from tests.contract.spread_ground import desk as desk
from tests.contract.spread_ground import servers as servers
from tests.contract.spread_ground import started as started
from tests.contract.test_spread_losses import (
    a_minute_passes,
    assert_complete,
    control_of,
    crawl,
    finish,
    host_on,
    leading_to,
    spread_of,
)
from tests.contract.test_spread_moves import a_mover, mark_of
from tests.shards import CONTROL, Servers
from tests.waiting import wait_until

SHARDS = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _rest_little(monkeypatch: pytest.MonkeyPatch) -> None:
    rest_little(monkeypatch)


def look(desk: Desk, times: int = 1) -> None:
    for _ in range(times):
        desk.platform.recovery.look()


def life_of(desk: Desk, job: str) -> str:
    return spread_of(desk).jobs.list.lives([job])[job].life


def is_whole(servers: Servers, name: str) -> bool:
    client = servers.client(name)
    return client.get("shoal.shard:whole") == client.info("server")["run_id"]


# --- who starts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fall", ["restart", "empty"])
def test_everybody_starts_when_a_shard_has_lost_a_word_on_a_host(desk: Desk, servers: Servers, fall: str) -> None:
    b = host_on(servers, "b")
    servers.save()
    assert desk.patch(f"hosts/{b}", {"rate": "1/s"}).status_code == 200
    getattr(servers.mortals["b"], fall)()
    assert desk.platform.hosts.sync() == 0  # nobody has looked at it yet
    sync_hosts(desk.platform.settings)
    status = desk.platform.watch.host(b)
    assert status is not None
    assert status.rate == 1


def test_a_server_that_has_two_names_is_refused_before_anything_is_done_to_it(
    desk: Desk, servers: Servers, tmp_path: Path
) -> None:
    """A name was added to SHOAL_SHARDS, with the wrong URL."""
    job = desk.submit(*MANY)
    life, marks = life_of(desk, job), [mark_of(servers, "a", slot) for slot in range(SLOTS)]
    twice = f"{servers.named} d={servers.urls['a']}?db=0"
    with a_desk(servers.control, tmp_path / "other", prefix="shoal", shards=twice) as other:
        for _ in range(2):
            with pytest.raises(InputError, match="a and d are the same database of the same server"):
                other.platform.recovery.look()
    look(desk)
    assert [mark_of(servers, "a", slot) for slot in range(SLOTS)] == marks
    assert life_of(desk, job) == life
    assert set(finish(desk)) == set(MANY)


def test_a_shard_that_has_hosts_and_no_name_is_told_everywhere(desk: Desk, servers: Servers, tmp_path: Path) -> None:
    """Slots were moved to a new one before this process was restarted with its name."""
    job = desk.submit(*MANY)
    told = "hosts are on the shard 'c', which SHOAL_SHARDS does not name"
    two = " ".join(f"{name}={servers.urls[name]}" for name in ("a", "b"))
    settings = desk.platform.settings.model_copy(update={"shards": two})
    with open_platform(settings, rings=False) as other:
        other.recovery.look()
        assert [each.message for each in other.watch.troubles()] == [told]
        status = other.frontier.status(job)
        assert status
        assert status.partial
        assert [each.message for each in status.troubles] == [told]
        assert [(each.name, each.slots, each.memory is None) for each in other.watch.shards()] == [
            ("a", 6, False),
            ("b", 5, False),
            ("c", 5, True),
        ]


# --- a shard that is started anew -------------------------------------------------------------------------------------


def test_a_shard_that_is_started_anew_and_has_lost_nothing_costs_nothing(desk: Desk, servers: Servers) -> None:
    """The newest job, which was submitted long ago, goes on as it is."""
    b = host_on(servers, "b")
    urls = [f"http://{b}/{n}" for n in range(5)]
    job = desk.submit(*urls)
    desk.work(at_most=2)
    a_minute_passes(servers)
    life = life_of(desk, job)
    for _ in range(3):  # one after the other
        servers.mortals["b"].restart()
        look(desk, 3)
        servers.save()
        assert is_whole(servers, "b")
        assert life_of(desk, job) == life
    assert len(finish(desk)) == 3
    assert_complete(desk, job, set(urls))


def test_what_was_submitted_to_a_shard_just_before_its_fall_is_there(desk: Desk, servers: Servers) -> None:
    """While another is away: the job is begun anew once, not with each look."""
    b = host_on(servers, "b")
    servers.save()
    urls = [f"http://{b}/{n}" for n in range(5)]
    job = desk.submit(*urls)
    first = life_of(desk, job)
    with servers.away("c"):
        servers.mortals["b"].restart()
        look(desk)
        second = life_of(desk, job)
        assert second != first
        for _ in range(5):
            desk.platform.recovery.tick()
        assert life_of(desk, job) == second
        assert sorted(desk.work()) == urls  # only the hosts of who is away wait
        assert not is_whole(servers, "b")
        assert desk.state(job) is JobState.RUNNING
    finish(desk)
    assert_complete(desk, job, set(urls))


def test_workers_are_not_told_of_the_same_loss_again_and_again(desk: Desk, servers: Servers) -> None:
    servers.save()
    with servers.away("c"):
        servers.mortals["b"].restart()
        look(desk)
        fence = spread_of(desk).jobs.list.fence()
        look(desk, 3)
        assert spread_of(desk).jobs.list.fence() == fence
        assert int(servers.client("a").get("shoal.shard:fence") or 0) == fence
    wait_until(lambda: (look(desk), is_whole(servers, "b"))[1])
    assert int(servers.client("c").get("shoal.shard:fence") or 0) == fence


def test_lives_that_a_list_has_forgotten_are_found_out(desk: Desk, servers: Servers) -> None:
    """A shard was emptied, its jobs have begun anew, and the control Redis loses just that."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = crawl(desk, f"http://{a}/from", hosts=(a, b))
    desk.work(leading_to(f"http://{b}/x"), at_most=1)
    a_minute_passes(servers)
    servers.client("a").delete(f"shoal.{slot_of(a):02d}:sent")  # what went there is on its disk
    servers.save()
    servers.mortals["b"].empty()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("shoal.recovery.recovery.Recovery._look", die)
        look(desk)
    servers.mortals[CONTROL].restart()
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{b}/x"})


def test_losses_are_counted_on_when_everything_was_emptied(desk: Desk, servers: Servers) -> None:
    """Who sent links before is told, also if he has known of many losses."""
    before = [spread_of(desk).jobs.list.next_fence() for _ in range(5)][-1]
    control_of(servers).flushall()
    assert spread_of(desk).jobs.list.next_fence() > before


# --- links while another is away --------------------------------------------------------------------------------------


def test_links_that_are_owed_to_a_shard_do_not_wait_for_another(desk: Desk, servers: Servers) -> None:
    """It was started anew, and is not whole before all have been asked; the page leads to both."""
    a, b, c = host_on(servers, "a"), host_on(servers, "b"), host_on(servers, "c")
    job = crawl(desk, f"http://{a}/from", hosts=(a, b, c))
    a_minute_passes(servers)
    with servers.away("c"):
        with servers.away("b"):
            desk.work(leading_to(f"http://{b}/x", f"http://{c}/x"))
        servers.mortals["b"].restart()
        fetched: list[str] = []
        wait_until(lambda: bool((desk.platform.recovery.tick(), fetched.extend(desk.work()), fetched)[2]))
        assert fetched == [f"http://{b}/x"]
        assert desk.state(job) is JobState.RUNNING
        (line,) = servers.client("a").zrange(f"shoal.{slot_of(a):02d}:owed", 0, -1)
        assert Line.read(0, str(line)).to == {slot_of(c)}
    assert finish(desk) == [f"http://{c}/x"]
    assert_complete(desk, job, {f"http://{a}/from", f"http://{b}/x", f"http://{c}/x"})


def test_lines_of_a_shard_that_is_away_stand_in_nobodys_way(
    desk: Desk, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.frontier.spread_rebuild.LINES_AT_ONCE", 1)
    monkeypatch.setattr("shoal.recovery.shards.PAGES_AT_ONCE", 1)
    a, b, c = host_on(servers, "a"), host_on(servers, "b"), host_on(servers, "c")
    job = crawl(desk, *(f"http://{a}/from{n}" for n in range(6)), hosts=(a, b, c))
    with servers.away("c"):
        with servers.away("b"):
            for n in range(6):
                desk.work(leading_to(f"http://{c if n < 3 else b}/x{n}"), at_most=1)
        fetched: list[str] = []
        wait_until(lambda: len((desk.platform.recovery.tick(), fetched.extend(desk.work()), fetched)[2]) == 3)
    finish(desk)
    expected = {f"http://{a}/from{n}" for n in range(6)} | {f"http://{c if n < 3 else b}/x{n}" for n in range(6)}
    assert_complete(desk, job, expected)


def test_what_was_sent_is_forgotten_in_time_while_another_is_away(
    desk: Desk, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its target was started anew, and is not whole: but all that went to it from here before was sent again."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    crawl(desk, f"http://{a}/from", f"http://{a}/from2", hosts=(a, b))
    a_minute_passes(servers)
    desk.work(leading_to(f"http://{b}/x"), at_most=1)
    key = f"shoal.{slot_of(a):02d}:sent"
    assert servers.client("a").zcard(key) == 1
    monkeypatch.setattr("shoal.recovery.shards.LATELY", timedelta())
    monkeypatch.setattr("shoal.recovery.shards.TRIM_EVERY_S", 0.0)
    with servers.away("c"):
        servers.mortals["b"].restart()
        wait_until(lambda: (look(desk), servers.client("a").zcard(key))[1] == 0)
        assert not is_whole(servers, "b")
        assert "http://" + b + "/x" in desk.work()


def test_links_that_are_paid_to_a_shard_which_falls_are_paid_again(desk: Desk, servers: Servers) -> None:
    """It has been looked at before the payment was noted: what was sent is gone."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = crawl(desk, f"http://{a}/from", hosts=(a, b))
    with servers.away("b"):
        desk.work(leading_to(f"http://{b}/x"))
    a_minute_passes(servers)
    noted, note = list[bool](), SpreadRebuild.note_paid

    def late(rebuild: SpreadRebuild, line: Line, to: frozenset[int], fence: int, *, mine: bool) -> bool:
        if not noted:
            servers.mortals["b"].restart()
            look(desk)
        noted.append(note(rebuild, line, to, fence, mine=mine))
        return noted[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpreadRebuild, "note_paid", late)
        wait_until(lambda: (look(desk), len(noted) >= 2)[1])
    assert noted[:2] == [False, True]
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{b}/x"})


def test_links_are_seen_to_for_a_short_while_and_by_one(
    desk: Desk, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    crawl(desk, f"http://{a}/from", hosts=(a, b))
    with servers.away("b"):
        desk.work(leading_to(f"http://{b}/x"))
    owed = f"shoal.{slot_of(a):02d}:owed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.recovery.shards.LINKS_S", 0.0)
        look(desk, 3)
    assert servers.client("a").zcard(owed) == 1
    control_of(servers).set("shoal.jobs:chore:links", "another")
    look(desk, 3)
    assert servers.client("a").zcard(owed) == 1
    control_of(servers).delete("shoal.jobs:chore:links")
    wait_until(lambda: (look(desk), servers.client("a").zcard(owed))[1] == 0)


# --- whose fault it is ------------------------------------------------------------------------------------------------


def test_a_shard_with_an_old_mark_whose_owner_is_away_is_worked_with(desk: Desk, servers: Servers) -> None:
    """It has forgotten that a slot has gone: nobody works with that one, but with all others."""
    b, stays = host_on(servers, "b"), host_on(servers, "b", 1)
    slot = slot_of(b)
    job = desk.submit(f"http://{b}/", f"http://{stays}/")
    a_minute_passes(servers)
    mover = a_mover(servers)
    mover.move(Move(slot, "b", "c"))
    with servers.away("c"):
        servers.mortals["b"].restart()
        assert mark_of(servers, "b", slot) == "here"
        look(desk, 2)
        assert mark_of(servers, "b", slot) == "moving doubt"
        assert not [each for each in spread_of(desk).shards.troubles() if "shard b" in each.message]
        assert desk.work() == [f"http://{stays}/"]
    wait_until(lambda: (look(desk), mark_of(servers, "b", slot))[1] == "moved c")
    finish(desk)
    assert_complete(desk, job, {f"http://{b}/", f"http://{stays}/"})
    mover.close()


def test_a_slot_whose_table_was_lost_is_worked_with_when_the_other_can_be_asked(desk: Desk, servers: Servers) -> None:
    """The table says another server, which knows that the slot has gone."""
    b = host_on(servers, "b")
    slot = slot_of(b)
    job = desk.submit(f"http://{b}/")
    mover = a_mover(servers)
    mover.move(Move(slot, "b", "c"))
    Shards.at(control_of(servers), "shoal", servers.urls).note(slot, "b")
    with servers.away("b"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.frontier.shards.TABLE_S", 0.0)
        look(desk, 2)
        assert mark_of(servers, "c", slot) == "moving doubt"
    wait_until(lambda: (look(desk), mark_of(servers, "c", slot))[1] == "here")
    finish(desk)
    assert_complete(desk, job, {f"http://{b}/"})
    mover.close()


def test_no_shard_is_blamed_for_another(desk: Desk, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.errors import RedisUnavailable
    from shoal.frontier.server_rebuild import ServerRebuild

    def away(*_: object) -> None:
        raise RedisUnavailable("the shard c did not answer")

    monkeypatch.setattr(ServerRebuild, "disown", away)
    look(desk)
    assert spread_of(desk).shards.troubles() == ()
    rebuild = desk.platform.rebuild
    assert isinstance(rebuild, SpreadRebuild)
    assert rebuild.shards.troubles() == ()


# --- without shards ---------------------------------------------------------------------------------------------------


def test_who_has_no_shards_pays_nothing_for_them(servers: Servers, tmp_path: Path) -> None:
    with a_desk(servers.control, tmp_path, prefix="shoal") as plain:
        plain.submit(*MANY[:3])
        plain.platform.housekeeper.tick()
        plain.work()
        plain.platform.housekeeper.tick()
        assert "shoal_shard" not in plain.get("/metrics").text
    keys = cast("list[str]", control_of(servers).keys())
    assert "shoal:chore:strays" in keys
    assert "shoal:chore:slots" not in keys
    assert [key for key in keys if not key.startswith("shoal:")] == []
    for name in ("a", "b", "c"):
        assert servers.client(name).dbsize() == 0


# --- keys without an owner --------------------------------------------------------------------------------------------


def test_strays_are_found_in_every_slot_also_after_a_shard_was_away(desk: Desk, servers: Servers) -> None:
    reconciler = desk.platform.housekeeper.reconciler
    with servers.away("b"):
        for _ in range(5):
            reconciler.strays()
    strays = {name: f"shoal.{slot:02d}:ready:nobody.0" for name, slot in (("a", 0), ("b", 7), ("c", 15))}
    for name, key in strays.items():
        servers.client(name).zadd(key, {"h": 1})
    wait_until(
        lambda: not any((reconciler.strays(), servers.client(name).exists(key))[1] for name, key in strays.items())
    )
