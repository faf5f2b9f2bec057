# Two images: `slim` for everything that renders no pages, `browser` for workers that do.
#   docker build --target slim -t shoal:slim .
#   docker build --target browser -t shoal:browser .
# Signals need no init: every command takes SIGTERM itself. Where pages are rendered, an init also buries what browsers
# leave behind: `docker run --init`.

FROM python:3.11-slim-trixie AS base
# A number, so that Kubernetes can see that it is not root's.
RUN groupadd --gid 10001 shoal \
 && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /var/lib/shoal --shell /usr/sbin/nologin shoal \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/shoal \
 && install -d -o 10001 -g 10001 -m 0750 /srv/shoal/archive /srv/shoal/keys
# The root file system can be read-only: what is written goes to /var/lib/shoal, /srv/shoal and /tmp.
ENV PATH=/opt/shoal/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/shoal \
    SHOAL_HOME=/var/lib/shoal \
    SHOAL_ARCHIVE_DIR=/srv/shoal/archive \
    SHOAL_API_HOST=0.0.0.0 \
    SHOAL_FLOWER_HOST=0.0.0.0
WORKDIR /var/lib/shoal


FROM python:3.11-slim-trixie AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv --without-pip /opt/shoal
WORKDIR /build
COPY requirements/fleet.txt requirements/
RUN pip --python /opt/shoal install --require-hashes --no-deps --only-binary :all: -r requirements/fleet.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip --python /opt/shoal install --no-deps --no-build-isolation .


FROM build AS build-browser
COPY requirements/browser.txt requirements/
RUN pip --python /opt/shoal install --require-hashes --no-deps --only-binary :all: -r requirements/browser.txt


FROM base AS browser
# Its version is Debian's newest: a browser that is pinned is one with known holes.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends chromium-headless-shell fonts-liberation fonts-noto-core \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build-browser /opt/shoal /opt/shoal
USER 10001:10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["shoal"]
CMD ["worker", "--queues", "browser.high,browser.batch,browser.slow"]


# The last one, so that a build without --target makes it.
FROM base AS slim
COPY --from=build /opt/shoal /opt/shoal
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
# Of the API; a service that runs something else switches it off.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["shoal"]
CMD ["api"]
