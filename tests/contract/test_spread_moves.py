"""Slots that move from and to servers that fall: what was lost is made good where it is looked for, and nothing moves
that is not all there.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
import redis

from shoal.core.model import JobState
from shoal.doctor.redis import least_rights
from shoal.errors import Conflict, InputError, RedisUnavailable
from shoal.frontier import moving
from shoal.frontier.moving import Move, Mover
from shoal.frontier.scripts import connect
from shoal.frontier.shards import Shards
from shoal.frontier.slots import slot_of
from shoal.frontier.spread import SpreadFrontier
from tests.contract.api import Desk, a_desk
from tests.contract.frontier_calls import lease, pages, settle, start, status_of
from tests.contract.spread_ground import MANY
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
from tests.shards import Servers
from tests.waiting import wait_until

SHARDS = ("a", "b", "c")


def a_mover(servers: Servers, control: redis.Redis | None = None, prefix: str = "shoal") -> Mover:
    control = control or control_of(servers)
    raw = {name: connect(url, texts=False) for name, url in servers.urls.items()}
    return Mover(control, prefix, Shards.at(control, prefix, servers.urls), raw)


def mark_of(servers: Servers, name: str, slot: int) -> str:
    return str(servers.client(name).get(f"shoal.{slot:02d}:slot") or "")


# --- servers that fall ------------------------------------------------------------------------------------------------


def test_nothing_moves_off_a_server_that_has_not_made_good_its_loss(desk: Desk, servers: Servers) -> None:
    """Links that it lost are sent again to the slots that are on it: to one that had gone, they never would be."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    slot = slot_of(b)
    job = crawl(desk, f"http://{a}/from", f"http://{a}/2", hosts=(a, b))
    a_minute_passes(servers)
    desk.work(leading_to(f"http://{b}/x"), at_most=2)
    servers.mortals["b"].restart()
    mover = a_mover(servers)
    with pytest.raises(RedisUnavailable, match="the shard b was started anew"):
        mover.move(Move(slot, "b", "c"))
    with servers.away("c"):
        desk.platform.recovery.look()  # it is worked with, and not whole: not all can be asked what went there
        assert mark_of(servers, "b", slot) == "here"
    with pytest.raises(RedisUnavailable, match="not made good yet"):
        mover.move(Move(slot, "b", "c"))
    assert mark_of(servers, "b", slot) == "here"
    wait_until(lambda: (desk.platform.recovery.look(), servers.client("b").get("shoal.shard:whole"))[1] != "")
    wait_until(lambda: _moves(desk, mover, Move(slot, "b", "c")))
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{a}/2", f"http://{b}/x"})
    mover.close()


def _moves(desk: Desk, mover: Mover, move: Move) -> bool:
    desk.platform.recovery.look()
    try:
        mover.move(move)
    except RedisUnavailable:
        return False
    return True


@pytest.mark.parametrize("name", ["source", "target"])
def test_a_server_that_is_started_anew_in_the_middle_of_a_move(desk: Desk, servers: Servers, name: str) -> None:
    """Between two of its commands: the connections of the mover are made anew, and nobody tells him."""
    job = desk.submit(*MANY)
    desk.work(at_most=20)
    slot = slot_of("h0.test")
    source = spread_of(desk).shards.table()[slot]
    fallen = source if name == "source" else "c"
    mover, put, met = a_mover(servers), moving._End.put, list[int]()  # pyright: ignore[reportPrivateUsage]

    def fall(end: moving._End, mark: str, triples: list[tuple[bytes, int, bytes]]) -> bool:  # pyright: ignore[reportPrivateUsage]
        if mark.startswith("arriving") and triples and triples[0][2]:
            if not met:
                servers.save()
            met.append(1)
            done = put(end, mark, triples[:1])
            servers.mortals[fallen].restart()
            for client in mover._raw.values():  # pyright: ignore[reportPrivateUsage]
                client.connection_pool.disconnect()
            return done and put(end, mark, triples[1:])
        return put(end, mark, triples)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RedisUnavailable, match="anew meanwhile"):
        patch.setattr("shoal.frontier.moving._End.put", fall)
        mover.move(Move(slot, source, "c"))
    assert met
    finish(desk)
    assert spread_of(desk).shards.table(anew=True)[slot] == source
    assert_complete(desk, job, set(MANY))
    mover.close()


# --- prefixes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["shoal[1]", "sho?l", "sho*", "a\\b", "shoal"])
def test_slots_move_whatever_the_prefix(servers: Servers, prefix: str) -> None:
    control, other = connect(servers.control), connect(servers.control)
    frontier = SpreadFrontier(control, prefix, Shards.at(control, prefix, servers.urls))
    neighbour = SpreadFrontier(other, "shoal", Shards.at(other, "shoal", servers.urls))
    start(frontier, "job", pages("h0.test", 5))
    start(neighbour, "theirs", pages("h0.test", 5))
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    theirs = neighbour.shards.table()[slot]
    mover = a_mover(servers, control, prefix)
    assert mover.move(Move(slot, source, "a" if source != "a" else "b")) > 3
    assert len(lease(frontier)) == 5 if prefix != "shoal" else 10
    if prefix != "shoal":
        assert neighbour.shards.table(anew=True)[slot] == theirs
        assert len(lease(neighbour)) == 5
    for each in (frontier, neighbour):
        each.close_connections()
    mover.close()


# --- movers that are cut short ----------------------------------------------------------------------------------------


def test_a_move_that_was_cut_short_after_the_slot_had_gone_is_finished(servers: Servers) -> None:
    """Run again at once: what has arrived is the only copy that lives."""
    control = connect(servers.control)
    frontier = SpreadFrontier(control, "shoal", Shards.at(control, "shoal", servers.urls))
    start(frontier, "job", pages("h0.test", 5))
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    target = "a" if source != "a" else "b"
    mover = a_mover(servers, control)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("shoal.frontier.moving.finish", die)
        mover.move(Move(slot, source, target))
    assert mark_of(servers, source, slot) == f"moved {target}"
    with pytest.raises(Conflict, match="is not on"):
        mover.move(Move(slot, source, target))
    assert mark_of(servers, target, slot).startswith("arrived")
    assert all(move.slot != slot or move.source == target for move in mover.plan())
    assert mark_of(servers, target, slot) == "here"
    leases = lease(frontier)
    assert len(leases) == 5
    settle(frontier, leases)
    assert status_of(frontier, "job").counters.done == 5
    frontier.close_connections()
    mover.close()


def test_a_look_in_the_middle_of_a_move_takes_nothing_for_lost(desk: Desk, servers: Servers) -> None:
    """After the slot has gone, and before the other server says that it is there."""
    job = desk.submit(*MANY)
    slot = slot_of("h0.test")
    source = spread_of(desk).shards.table()[slot]
    target = "a" if source != "a" else "b"
    life = spread_of(desk).jobs.list.lives([job])[job].life
    mover, finishing = a_mover(servers), moving.finish

    def nothing(*_: object) -> None:
        return

    def late(*given: object) -> None:
        with pytest.MonkeyPatch.context() as other:
            other.setattr("shoal.frontier.moving.Caretaker.tend", nothing)
            desk.platform.recovery.look()
        finishing(*given)  # pyright: ignore[reportArgumentType]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.frontier.moving.finish", late)
        mover.move(Move(slot, source, target))
    assert spread_of(desk).jobs.list.lives([job])[job].life == life
    assert mark_of(servers, source, slot) == f"moved {target}"
    finish(desk)
    assert_complete(desk, job, set(MANY))
    mover.close()


def test_who_was_held_up_while_a_server_was_looked_at_brings_no_slot_back(desk: Desk, servers: Servers) -> None:
    """Slots that were lost have begun anew meanwhile, and one has moved."""
    desk.submit(*MANY)
    slot = slot_of("h0.test")
    source = spread_of(desk).shards.table()[slot]
    target = next(name for name in ("a", "b", "c") if name != source)
    servers.mortals[source].empty()
    from shoal.frontier.server_rebuild import ServerRebuild

    begin, held = ServerRebuild.begin_slots, list[int]()

    def late(server: ServerRebuild, slots: dict[int, str], run: str) -> None:
        if not held:
            held.append(1)
            begin(server, slots, run)
            server.raise_epoch(10)
            server.trust(run)
            server.note_whole(run)
            mover = a_mover(servers)
            mover.move(Move(slot, source, target))
            mover.close()
        begin(server, slots, run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerRebuild, "begin_slots", late)
        desk.platform.recovery.look()
    assert held
    assert mark_of(servers, source, slot) == f"moved {target}"
    assert mark_of(servers, target, slot) == "here"


def test_a_target_is_cleared_for_as_long_as_it_takes(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of a mover does not run out while he passes over the keys of others."""
    control = connect(servers.control)
    frontier = SpreadFrontier(control, "shoal", Shards.at(control, "shoal", servers.urls))
    start(frontier, "job", pages("h0.test", 5))
    slot = slot_of("h0.test")
    source = frontier.shards.table()[slot]
    target = "a" if source != "a" else "b"
    monkeypatch.setattr("shoal.frontier.moving.CLAIM_S", 1)
    monkeypatch.setattr("shoal.frontier.moving.KEYS_AT_ONCE", 10)
    client = servers.client(target)
    client.mset({f"other:{n}": 1 for n in range(300)})
    each_keys = moving._End.each_keys  # pyright: ignore[reportPrivateUsage]

    def slowly(end: moving._End) -> Generator[list[bytes]]:  # pyright: ignore[reportPrivateUsage]
        import time

        for some in each_keys(end):
            time.sleep(0.05)
            yield some

    monkeypatch.setattr("shoal.frontier.moving._End.each_keys", slowly)
    mover = a_mover(servers, control)
    assert mover.move(Move(slot, source, target)) > 3
    assert len(lease(frontier)) == 5
    frontier.close_connections()
    mover.close()


def test_a_slot_of_a_server_without_a_name_is_told(servers: Servers) -> None:
    mover = a_mover(servers)
    mover.shards.table()
    mover.shards.note(3, "gone")
    with pytest.raises(InputError, match="'gone', which SHOAL_SHARDS does not name"):
        mover.move(Move(3, "gone", "a"))
    mover.close()


# --- rights -----------------------------------------------------------------------------------------------------------


def test_the_rights_that_the_doctor_lists_are_enough(servers: Servers, tmp_path: Path) -> None:
    rights = least_rights("shoal", 2, in_slots=True)
    for name in servers.mortals:
        servers.client(name).execute_command("ACL", "SETUSER", "fleet", "on", ">secret", *rights)

    def logged_in(url: str) -> str:
        return url.replace("unix://", "unix://fleet:secret@")

    known = Servers(logged_in(servers.control), {name: logged_in(url) for name, url in servers.urls.items()})
    with a_desk(known.control, tmp_path, prefix="shoal", shards=known.named) as desk:
        desk.platform.recovery.look()
        job = desk.submit(*MANY)
        desk.work(at_most=10)
        mover = a_mover(known)
        for move in mover.plan("b"):
            mover.move(move)
        mover.close()
        finish(desk)
        assert_complete(desk, job, set(MANY))
    for name in servers.mortals:
        servers.client(name).execute_command("ACL", "DELUSER", "fleet")


# --- servers that have a name once more -------------------------------------------------------------------------------


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_name_that_is_used_again_loses_nothing(desk: Desk, servers: Servers, looked_at: bool) -> None:
    job = desk.submit(*MANY)
    for _ in range(5):
        desk.platform.recovery.look()
    mover = a_mover(servers)
    for move in mover.plan("c"):
        mover.move(move)
    servers.mortals["c"].empty()
    if looked_at:
        desk.platform.recovery.look()
        desk.platform.recovery.look()
    life = spread_of(desk).jobs.list.lives([job])[job].life
    for move in mover.plan():
        mover.move(move)
    for _ in range(3):
        desk.platform.recovery.look()
    assert spread_of(desk).jobs.list.lives([job])[job].life == life
    finish(desk)
    assert desk.state(job) is JobState.FINISHED
    assert_complete(desk, job, set(MANY))
    mover.close()
