"""Who may be asked: the internet, what is allowed, and never what is denied."""

from __future__ import annotations

import pytest

from shoal.core.address import read_address
from shoal.core.egress import Egress, explain, is_loopback


def _refuses(egress: Egress, text: str, name: str = "", *, local: bool = False) -> str:
    address = read_address(text)
    assert address is not None
    return egress.refuses(address, name, local=local)


def test_by_default_only_the_internet() -> None:
    assert _refuses(Egress(), "8.8.8.8") == ""
    assert _refuses(Egress(), "10.0.0.1") == "private"
    assert _refuses(Egress(), "::ffff:127.0.0.1") == "loopback"


def test_an_allowed_network_is_open_in_every_disguise_and_others_are_not() -> None:
    egress = Egress.read("10.0.0.0/8, 192.168.7.7")
    assert _refuses(egress, "10.9.8.7") == ""
    assert _refuses(egress, "::ffff:10.9.8.7") == ""
    assert _refuses(egress, "192.168.7.7") == ""
    assert _refuses(egress, "192.168.7.8") == "private"
    assert _refuses(egress, "::ffff:192.168.7.8") == "private"


def test_an_allowed_name_is_open_wherever_it_leads_and_its_address_alone_is_not() -> None:
    egress = Egress.read("wiki.example,*.corp.example")
    assert _refuses(egress, "10.0.0.1", "wiki.example") == ""
    assert _refuses(egress, "10.0.0.1", "a.b.corp.example") == ""
    assert _refuses(egress, "10.0.0.1", "corp.example") == "private"
    assert _refuses(egress, "10.0.0.1", "evil-wiki.example") == "private"
    assert _refuses(egress, "10.0.0.1") == "private"


@pytest.mark.parametrize("text", ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "224.0.0.1", "0.0.0.0", "::"])
def test_some_places_no_list_opens(text: str) -> None:
    egress = Egress.read("0.0.0.0/0,::/0,metadata.example")
    assert _refuses(egress, text)
    assert _refuses(egress, text, "metadata.example", local=True)


def test_denied_is_stronger_than_allowed_and_than_public() -> None:
    egress = Egress.read("10.0.0.0/8,wiki.example", "10.1.0.0/16,8.8.8.0/24")
    assert _refuses(egress, "10.2.0.1") == ""
    assert _refuses(egress, "10.1.0.1") == "denied"
    assert _refuses(egress, "::ffff:10.1.0.1", "wiki.example") == "denied"
    assert _refuses(egress, "8.8.8.8") == "denied"


def test_who_is_here_may_have_loopback_and_nothing_else() -> None:
    assert _refuses(Egress(), "127.0.0.1", local=True) == ""
    assert _refuses(Egress(), "::1", local=True) == ""
    assert _refuses(Egress(), "10.0.0.1", local=True) == "private"
    assert _refuses(Egress.read("", "127.0.0.0/8"), "127.0.0.1", local=True) == "denied"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "shop.localhost", "10.0.0.7", "[::ffff:10.0.0.7]"])
def test_what_can_be_seen_without_a_name_server_is_refused_with_what_to_do(host: str) -> None:
    why = Egress().refuses_host(host)
    assert why in ("loopback", "private")
    assert (
        explain(host, why)
        == f"{host} is not on the internet ({why}); the operator can allow it with SHOAL_EGRESS_ALLOW"
    )


def test_loopback_by_name_is_open_when_loopback_is_allowed() -> None:
    assert Egress.read("127.0.0.0/8").refuses_host("localhost") == ""
    assert Egress.read("localhost").refuses_host("localhost") == ""
    assert Egress().refuses_host("localhost", local=True) == ""
    assert Egress().refuses_host("books.example") == ""


@pytest.mark.parametrize(("host", "here"), [("LOCALHOST", False), ("localhost", True), ("a.localhost", True),
                                            ("notlocalhost", False), ("localhost.example", False), ("127.9.9.9", True),
                                            ("[::ffff:127.0.0.1]", True), ("10.0.0.1", False)])  # fmt: skip
def test_a_host_says_that_it_is_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here  # canonical hosts are in lower case


@pytest.mark.parametrize("wrong", ["10.0.0.0/33", "http://wiki.example", "a b", "999.1.1.1", "wiki..example"])
def test_a_list_that_makes_no_sense_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="neither a network"):
        Egress.read(wrong)


def test_names_cannot_be_denied() -> None:
    with pytest.raises(ValueError, match="only networks"):
        Egress.read("", "wiki.example")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("127.0.0.1:8080", "127.0.0.1"), ("[::1]:80", "[::1]"), ("wiki.example:443", "wiki.example")],
)
def test_a_port_is_no_part_of_the_list(wrong: str, right: str) -> None:
    with pytest.raises(ValueError, match="has a port in it") as caught:
        Egress.read(f"10.0.0.0/8,{wrong}")
    assert str(caught.value).endswith(f": write {right}")
    assert Egress.read(right) != Egress()
