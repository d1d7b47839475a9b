# One image for the API and the workers, in two stages: what only installs stays behind in the first.
#
# The base is named to the byte, so that the same checkout makes the same image. The digest is that of the index of all
# architectures; `docker buildx imagetools inspect python:3.12-slim-bookworm` prints the present one, for an update.
ARG BASE=python:3.12.15-slim-bookworm@sha256:54c85f3c47607a77f32adec749d3c81d1348bf25833671f512b26a9b6d778cb3

FROM ${BASE} AS build

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /opt/shoal

# The steps of `make install`, with a wheel in place of the editable checkout. The dependencies have their own layer,
# because they change less often than the code.
COPY requirements.lock ./
RUN python3 -m venv .venv
RUN .venv/bin/python -m pip install --quiet --requirement requirements.lock

COPY pyproject.toml README.md LICENSE NOTICE ./
COPY migrations migrations
COPY lagoon lagoon
COPY shoal shoal
COPY api api
COPY worker worker
RUN .venv/bin/python -m pip install --quiet --no-deps .

# Nothing is installed later, and the tests of packages are 30 MB. Compiled files that go by the time of their
# source are out of date as soon as a layer rounds it, and a read-only container would compile anew at every start.
RUN .venv/bin/python -m pip uninstall --quiet --yes pip \
    && find .venv -type d -name tests -prune -exec rm -r {} + \
    && .venv/bin/python -m compileall -q -f --invalidation-mode unchecked-hash .venv/lib

# What is left has to do all that Shoal does.
RUN cd / && /opt/shoal/.venv/bin/shoal demo > /dev/null

FROM ${BASE}

LABEL org.opencontainers.image.title="Shoal" \
      org.opencontainers.image.description="A retrieval service that explains every result" \
      org.opencontainers.image.licenses="Apache-2.0"

# The service owns nothing but its data. The code stays root's, so a hole in the service cannot rewrite it.
RUN groupadd --gid 10001 shoal \
    && useradd --uid 10001 --gid shoal --home-dir /data --no-create-home --shell /usr/sbin/nologin shoal \
    && install --directory --owner shoal --group shoal --mode 0700 /data

COPY --from=build /opt/shoal/.venv /opt/shoal/.venv

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PATH=/opt/shoal/.venv/bin:$PATH \
    SHOAL_DATABASE_URL=sqlite:////data/shoal.db \
    SHOAL_HOST=0.0.0.0 \
    SHOAL_LOG_FORMAT=json

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000

# For `shoal up` and `shoal serve`. `http.client` connects directly, `urllib` would use the proxy of Docker's settings.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=4 \
    CMD ["python", "-I", "-c", "import http.client, os; api = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('SHOAL_PORT', 8000)), timeout=4); api.request('GET', '/ready'); raise SystemExit(api.getresponse().status != 200)"]

CMD ["shoal", "up"]
