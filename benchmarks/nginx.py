"""Serve the sites with nginx: one process, a port for each site, all its files in a temporary folder."""

import shutil
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.process import free_port, listens, running, wait_ready
from benchmarks.served import Served
from benchmarks.site import Site

# One process in the foreground (no master): what we start is what serves, and it needs no user to drop to.
CONFIG = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log error;
events {{ worker_connections 4096; }}
http {{
  map $uri $is_start {{ default 0; /index.html 1; }}
  log_format starts "$msec $server_port";
  access_log {folder}/starts.log starts if=$is_start;
  types {{ text/html html; }}
  default_type application/octet-stream;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout {keepalive};
  keepalive_requests 10000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
{servers}
}}
"""
SERVER = '  server {{ listen {host}:{port} backlog=1024; {rules}root "{root}"; }}'


def find() -> str | None:
    """Return the path of nginx, also where an ordinary PATH leaves out the administrator's commands."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@contextmanager
def serve(binary: str, sites: Sequence[Site], *, everywhere: bool = False) -> Generator[Served]:
    """Serve sites while the block lasts. Of all requests, those for the start pages alone are logged.

    `everywhere`: on all loopback addresses, and each request over a connection of its own.
    """
    ports = {site.pages: free_port() for site in sites}
    with tempfile.TemporaryDirectory(prefix="shoal-bench-nginx-") as name:
        folder = Path(name)
        config = folder / "nginx.conf"
        config.write_text(_config(folder, sites, ports, everywhere=everywhere))
        command = [binary, "-e", str(folder / "error.log"), "-p", name, "-c", str(config)]
        with running(command, log=folder / "log") as child:
            wait_ready(child, lambda: all(listens(port) for port in ports.values()))
            urls = {pages: f"http://127.0.0.1:{port}/index.html" for pages, port in ports.items()}
            yield Served(urls, lambda pages: _starts(folder / "starts.log", ports[pages]))


def _starts(log: Path, port: int) -> list[float]:
    """When a start page was asked for, on the clock that all processes share; the log has the time of day."""
    ahead = time.time() - time.monotonic()
    lines = (line.split() for line in log.read_text().splitlines())
    return [float(at) - ahead for at, where in lines if int(where) == port]


def _config(folder: Path, sites: Sequence[Site], ports: dict[int, int], *, everywhere: bool) -> str:
    host, rules = ("0.0.0.0", "allow 127.0.0.0/8; deny all; ") if everywhere else ("127.0.0.1", "")
    servers = (SERVER.format(host=host, port=ports[site.pages], rules=rules, root=site.root) for site in sites)
    keepalive = "0" if everywhere else "300s"
    return CONFIG.format(folder=folder, servers="\n".join(servers), keepalive=keepalive)
