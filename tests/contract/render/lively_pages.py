"""A small site of pages that do what the browser must survive."""

from __future__ import annotations

from tests.site.reply import Reply, page, plain

SPIN = "<title>spins</title><script>while (true) {}</script>"
EAT = """<title>eats</title><script>
const kept = [];
setInterval(() => kept.push(new Uint8Array(16e6).fill(1)), 5);
</script>"""


GROWS = """<title>grows</title><script>
const kept = [];
const grow = () => {
  kept.push(new Uint8Array(10e6).fill(1));
  if (kept.length < 13) setTimeout(grow, 100); else document.title = "done";
};
grow();
</script>"""
TOLD = """<title>waits</title><script>
const ask = async () => {
  if (await (await fetch("/told")).text() === "yes") document.title = "done";
  else setTimeout(ask, 50);
};
ask();
</script>"""


class Pages:
    """`/wait/500`, or anything below it, is done after half a second; `/spin` and `/eat/wait` never are."""

    def __init__(self) -> None:
        self.told = False
        """`/wait/told` is done when this is true."""

    def respond(self, target: str, hits: int) -> Reply:
        match target.split("/")[1:]:
            case ["spin"]:
                return page(SPIN)
            case ["eat", "wait"]:
                return page(EAT)
            case ["wait", "grows", *_]:
                return page(GROWS)
            case ["wait", "told"]:
                return page(TOLD)
            case ["told"]:
                return plain("yes" if self.told else "no")
            case ["wait", ms, *_]:
                return page(
                    f"<title>waits</title><script>setTimeout(() => document.title = 'done', {int(ms)})</script>"
                )
            case _:
                return page(f"<title>done</title><p>{target}</p>")
