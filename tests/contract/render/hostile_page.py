"""A page that tries every way out of a browser that it knows, and canaries that note which of them led somewhere."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from string import Template
from urllib.parse import unquote

VIA_HTTP = (
    *(
        "image",
        "script",
        "style",
        "import",
        "font",
        "prefetch",
        "preload",
        "iframe",
        "object",
        "embed",
        "video",
        "audio",
    ),
    *("fetch", "xhr", "events", "beacon", "keepalive", "worker", "form", "ping", "srcdoc", "refresh"),
    *("redirect", "redirect-fetch", "redirect-frame", "websocket", "track"),
)
"""Ways that show at a canary as a request with their name."""
CLOSED = ("popup", "speculation", "shared")
"""And those that our browsers do not go, whatever the gate would say."""
HOSTS = ("127.0.0.1", "[::1]", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "inside.example")
"""How this machine can be written; the last is a name that leads here."""
ALSO = ("0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "shop.localhost")
"""And some that browsers themselves may leave out."""

PAGE = Template("""<!doctype html><html><head><title>waiting</title>
<link rel="icon" href="data:,"></head><body><script>
const hosts = $hosts, port = $port, udp = $udp;
const tries = {
  image: u => { new Image().src = u },
  script: u => add('script', {src: u}),
  style: u => add('link', {rel: 'stylesheet', href: u}),
  import: u => { add('style', {}).textContent = `@import url("$${u}");` },
  font: u => { new FontFace('f' + Math.random(), `url("$${u}")`).load().catch(() => 0) },
  prefetch: u => add('link', {rel: 'prefetch', href: u}),
  preload: u => add('link', {rel: 'preload', as: 'image', href: u}),
  preconnect: u => add('link', {rel: 'preconnect', href: u}),
  dns: u => add('link', {rel: 'dns-prefetch', href: u}),
  iframe: u => add('iframe', {src: u}),
  object: u => add('object', {data: u, type: 'text/html'}),
  embed: u => add('embed', {src: u, type: 'text/html'}),
  video: u => { add('video', {src: u, preload: 'auto'}).load() },
  audio: u => { add('audio', {src: u, preload: 'auto'}).load() },
  track: u => { const v = add('video', {crossOrigin: 'anonymous'});
                const t = document.createElement('track'); t.src = u; t.default = true; v.append(t);
                t.track.mode = 'showing' },
  fetch: u => { fetch(u, {mode: 'no-cors'}).catch(() => 0) },
  xhr: u => { const x = new XMLHttpRequest(); x.open('POST', u); x.send('x') },
  events: u => { const e = new EventSource(u); setTimeout(() => e.close(), 1000) },
  beacon: u => { navigator.sendBeacon(u, 'x') },
  keepalive: u => { fetch(u, {mode: 'no-cors', keepalive: true, method: 'POST', body: 'x'}).catch(() => 0) },
  worker: u => { new Worker(URL.createObjectURL(new Blob([`try { importScripts("$${u}") } catch {}`]))) },
  form: u => { const f = add('iframe', {name: 'f' + Math.random()});
               const o = add('form', {action: u, method: 'post', target: f.name}); o.submit() },
  ping: u => { const a = add('a', {href: '#x', ping: u}); a.click() },
  popup: u => { window.open(u) },
  speculation: u => { const rules = [{source: 'list', urls: [u], eagerness: 'immediate'}];
                      add('script', {type: 'speculationrules', textContent: JSON.stringify({prefetch: rules})}) },
  shared: u => { if (window.SharedWorker) new SharedWorker(URL.createObjectURL(new Blob([`importScripts("$${u}")`]))) },
  srcdoc: u => add('iframe', {srcdoc: `<img src="$${u}">`}),
  refresh: u => add('iframe', {srcdoc: `<meta http-equiv="refresh" content="0;url=$${u}">`}),
  redirect: u => { new Image().src = '/go?' + encodeURIComponent(u) },
  'redirect-fetch': u => { fetch('/go?' + encodeURIComponent(u), {mode: 'no-cors'}).catch(() => 0) },
  'redirect-frame': u => add('iframe', {src: '/go?' + encodeURIComponent(u)}),
  websocket: u => { new WebSocket(u.replace('http:', 'ws:')) },
  secure: u => { new Image().src = u.replace('http:', 'https:') },
  wss: u => { new WebSocket(u.replace('http:', 'wss:')) },
  favicon: u => add('link', {rel: 'icon', href: u}),
  manifest: u => add('link', {rel: 'manifest', href: u}),
  transport: u => { const goal = u.replace('http:', 'https:').replace(':' + port, ':' + udp);
                    new WebTransport(goal).ready.catch(() => 0) },
  rtc: u => { const host = new URL(u).hostname;
              const urls = [`stun:$${host}:$${udp}`, `stun:$${host}:$${port}?transport=tcp`];
              const turn = [`turn:$${host}:$${udp}?transport=udp`, `turn:$${host}:$${port}?transport=tcp`,
                            `turns:$${host}:$${port}?transport=tcp`];
              const ways = turn.map(t => ({urls: t, username: 'u', credential: 'c'}));
              for (const servers of [[{urls: urls[0]}], ...ways.map(w => [w])]) {
                const p = new RTCPeerConnection({iceServers: servers, iceCandidatePoolSize: 1});
                p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o)) } },
  candidate: u => { const p = new RTCPeerConnection(), q = new RTCPeerConnection();
              p.createDataChannel('x');
              p.createOffer().then(async o => { await p.setLocalDescription(o); await q.setRemoteDescription(o);
                const a = await q.createAnswer(); await q.setLocalDescription(a); await p.setRemoteDescription(a);
                for (const [kind, at] of [['udp', udp], ['tcp', port]]) {
                  const tail = kind === 'tcp' ? ' tcptype passive' : '';
                  p.addIceCandidate({sdpMid: '0', sdpMLineIndex: 0,
                    candidate: `candidate:1 1 $${kind} 2122260223 127.0.0.1 $${at} typ host` + tail}).catch(() => 0) }
              }) },
};
function add(kind, values) {
  const made = document.createElement(kind);
  Object.assign(made, values);
  document.body.append(made);
  return made;
}
window.failed = [];
async function all() {
  for (const host of hosts) for (const [name, attempt] of Object.entries(tries)) {
    try { attempt(`http://$${host}:$${port}/` + name) } catch (e) { window.failed.push(name + ' ' + host + ' ' + e) }
    await new Promise(r => setTimeout(r, 2));
  }
  await new Promise(r => setTimeout(r, 3000));
  document.title = 'tried';
}
addEventListener('load', all);
</script></body></html>""")


@dataclass
class Birds:
    """What reached the places where nobody may go."""

    port: int = 0
    udp: int = 0
    ways: list[str] = field(default_factory=list[str])
    """The path of each request; `?` for a connection on which something else was said, or nothing."""
    datagrams: list[bytes] = field(default_factory=list[bytes])

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Note who has come, and answer something."""
        at = len(self.ways)
        self.ways.append("?")
        try:
            line = (await reader.read(65_536)).partition(b"\r\n")[0].split(b" ")
            self.ways[at] = line[1].decode("latin-1").strip("/") if len(line) == 3 else "?"
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        except OSError:
            pass
        finally:
            writer.close()


def kind_of(datagram: bytes) -> str:
    """Of those that browsers send."""
    if datagram[4:8] == b"\x21\x12\xa4\x42":
        return "stun"
    return "quic" if datagram[0] & 0xC0 == 0xC0 else "other"


class _Ear(asyncio.DatagramProtocol):
    def __init__(self, birds: Birds) -> None:
        self._birds = birds

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._birds.datagrams.append(data)


@asynccontextmanager
async def birds(addresses: Sequence[str] = ("127.0.0.1", "::1"), port: int = 0) -> AsyncGenerator[Birds]:
    """Canaries on these addresses, for connections and for datagrams."""
    found = Birds(port)
    servers: list[asyncio.Server] = []
    for address in addresses:
        servers.append(await asyncio.start_server(found.converse, address, found.port, family=_family(address)))
        found.port = servers[-1].sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    ear, _ = await loop.create_datagram_endpoint(lambda: _Ear(found), local_addr=("127.0.0.1", 0))
    found.udp = ear.get_extra_info("sockname")[1]
    try:
        yield found
    finally:
        ear.close()
        for server in servers:
            server.close()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def site(pages: dict[str, str], address: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[int]:
    """Serves pages, and redirects to what stands behind `/go?`; a connection for each. Yields its port."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
            writer.write(_answer(path, pages))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, address, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0.01)


def _answer(path: str, pages: dict[str, str]) -> bytes:
    if path.startswith("/go?"):
        goal = unquote(path.removeprefix("/go?"))
        return f"HTTP/1.1 302 Found\r\nLocation: {goal}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    body = pages.get(path, "").encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
