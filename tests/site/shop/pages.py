"""The pages of the shop: what they are without a script, and the scripts that make them what they are."""

from __future__ import annotations

_LIST = """
const show = (goods) => {
  for (const each of goods) {
    const item = document.createElement('li');
    item.className = 'product';
    item.innerHTML = `<a href="/product/${each.number}">${each.name}</a> <b class="price">${each.price}</b>`;
    document.querySelector('#list').append(item);
  }
};
const load = async (address) => show(await (await fetch(address)).json());
"""


def page(title: str, body: str, script: str = "", head: str = "") -> str:
    """A whole document."""
    code = f"<script>{script}</script>" if script else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>{head}</head>\n'
        f"<body><h1>{title}</h1>{body}{code}</body></html>\n"
    )


def products(number: int, last: int) -> str:
    """A list that is filled by a script, with a link to the next one."""
    onward = f'<a id="next" href="/products?page={number + 1}">next</a>' if number < last else ""
    return page("Products", f'<ul id="list"></ul>{onward}', f"{_LIST} load('/api/products?page={number}');")


def endless(last: int) -> str:
    """More products come whenever its end is reached, up to the last page."""
    script = f"""{_LIST}
let page = 0, busy = false;
const more = async () => {{
  if (busy || page >= {last}) return;
  busy = true; page += 1;
  await load(`/api/products?page=${{page}}`);
  busy = false;
}};
addEventListener('scroll', () => {{
  if (innerHeight + scrollY >= document.documentElement.scrollHeight - 50) more();
}});
more();"""
    return page("Endless", '<ul id="list"></ul>', script, "<style>li{height:120px}</style>")


SEARCH = page(
    "Search",
    '<form id="search"><input name="q"><select name="order"><option value="price">by price</option>'
    '<option value="name">by name</option></select><button>Go</button></form><p id="said"></p><ul id="list"></ul>',
    f"""{_LIST}
document.querySelector('#search').addEventListener('submit', (event) => {{
  event.preventDefault();
  const form = new FormData(event.target);
  document.querySelector('#said').textContent = `${{form.get('q')}} by ${{form.get('order')}}`;
  load(`/api/search?q=${{encodeURIComponent(form.get('q'))}}`);
}});""",
)
LOGIN = page(
    "Log in",
    '<form method="post" action="/session"><input name="user"><input name="password" type="password">'
    '<button id="enter">Log in</button></form>',
)
ACCOUNT = page(
    "Account",
    '<p id="who">Please log in.</p>',
    "const user = /user=(\\w+)/.exec(document.cookie);"
    "if (user) document.querySelector('#who').textContent = `Welcome, ${user[1]}.`;",
)
APP = (
    '<!doctype html>\n<html><head><meta charset="utf-8"><title>App</title></head>'
    '<body><div id="app"></div><script>setTimeout(() => {'
    "document.querySelector('#app').innerHTML = '<h1>Rendered late</h1><a href=\"/product/7\">seven</a>';"
    "}, 300);</script></body></html>\n"
)
COOKIE_WALL = page(
    "Wall",
    '<p id="said">outside</p>',
    "if (/pass=1/.test(document.cookie)) document.querySelector('#said').textContent = 'inside';"
    "else { document.cookie = 'pass=1'; location.reload(); }",
)
SHADOW = page(
    "Shadow",
    "<div id=host></div>",
    "document.querySelector('#host').attachShadow({mode: 'open'}).innerHTML ="
    "'<p>within the root</p><a href=/product/9>nine</a>';",
)

LEAKS = page(
    "Leaks",
    "<p>all there</p>",
    "window.kept = []; for (let i = 0; i < 40; i += 1) kept.push(new Uint8Array(1 << 20).fill(i));",
)
EATS = page(
    "Eats",
    "<p>all there</p>",
    "window.kept = []; const eat = () => { for (let i = 0; i < 16; i += 1) kept.push(new Uint8Array(1 << 20).fill(1));"
    "setTimeout(eat, 1); }; addEventListener('load', eat);",
)
SPINS = page("Spins", "<p>never done</p>", "for (;;);")
SPINS_LATER = page("Spins", "<p>all there</p>", "addEventListener('load', () => setTimeout(() => { for (;;); }, 0));")
OPENS = page(
    "Opens",
    '<a id="blank" target="_blank" href="/opened?by=link">new window</a><p id="said"></p>',
    "for (let i = 0; i < 5; i += 1) window.open('/opened?by=script');"
    "alert('hello'); const sure = confirm('sure?'); const name = prompt('name?', 'x');"
    "document.querySelector('#said').textContent = `${sure} ${name}`;"
    "addEventListener('beforeunload', (event) => event.preventDefault());",
)
LEAVES_LATER = page("Leaves", "<p>soon gone</p>", "addEventListener('load', () => { location = '/product/1'; });")
ALWAYS_RELOADS = page("Reloads", "<p>again</p>", "location.reload();")
SENDS_ITSELF = page("Sends", '<form method="post" action="/sends"></form><p>here</p>', "document.forms[0].submit();")
DOWNLOADS = page("Downloads", '<a id="get" href="/file.zip">get</a><p>here</p>', "location = '/file.zip';")
LINKS_A_FILE = page("Files", '<a id="get" href="/file.zip">get</a><a id="kept" download="x" href="/api/products">k</a>')
SERVICE_WORKER = page(
    "Worker",
    '<p id="said">asking</p>',
    "const said = document.querySelector('#said');"
    "if (!navigator.serviceWorker) said.textContent = 'refused'; else "
    "navigator.serviceWorker.register('/sw.js').then((it) => it && it.active ? 'active' : 'refused', () => 'refused')"
    ".then((word) => { said.textContent = word; });",
)
ERRORS = page(
    "Errors",
    '<img src="/missing.png"><script src="/missing.js"></script><script src="http://127.0.0.1:1/none.js"></script>',
    "console.error('said so'); console.log('not an error'); setTimeout(() => { throw new Error('thrown'); }, 0);",
)
HEAVY = page(
    "Heavy",
    '<img src="/a.png"><img src="/b.png"><video src="/film.mp4"></video><script src="/app.js"></script>',
    head='<link rel="stylesheet" href="/shop.css">',
)
MANY = page("Many", "<p>many</p>", "for (let i = 0; i < 50; i += 1) fetch(`/api/products?n=${i}`).catch(() => 0);")
NEVER_LOADED = page("Hangs", '<p>all there</p><script src="/never.js" async></script>')
TAMPERS = page(
    "Tampers",
    "<p>true</p>",
    "const lie = {get() { return '<html>a lie</html>'; }};"
    "Object.defineProperty(Element.prototype, 'outerHTML', lie);"
    "XMLSerializer.prototype.serializeToString = () => 'a lie'; JSON.stringify = () => 'a lie';",
)
FLOODS = page("Floods", "<p>here</p>", "for (let i = 0; i < 3000; i += 1) console.error('x'.repeat(2000));")
WORKS = page(
    "Works",
    "<p>here</p>",
    "new Worker(URL.createObjectURL(new Blob([`fetch('${origin}/api/products?by=worker')`])));",
)
LONG = page("Long", '<div style="height:60000px;background:#ccc" id="tall">tall</div>')


def leaves(target: str) -> str:
    """A page that goes elsewhere as soon as its script is read."""
    return page("Leaves", "<p>soon gone</p>", f"location.href = {target!r};")


def refreshes(target: str) -> str:
    """The same without a script."""
    return page("Refreshes", "<p>soon gone</p>", head=f'<meta http-equiv="refresh" content="0; url={target}">')
