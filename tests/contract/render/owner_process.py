"""Run as a program: starts a browser, says so, and waits to be killed."""

from __future__ import annotations

import asyncio
import sys

from shoal.render.browser import Browser


async def _stay() -> None:
    browser = await Browser.start(sys.argv[1])
    context = await browser.context({})
    await context.new_page()
    print(browser.pid, flush=True)
    await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(_stay())
