# One image for the API and the workers. Its install steps are those of `make install`, so what runs here
# is what the tests ran against; tests/deploy/test_compose.py holds the two together.
FROM python:3.12-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /opt/shoal

# The dependencies change less often than the code: they get a layer of their own.
COPY requirements.lock ./
RUN python3 -m venv .venv
RUN .venv/bin/python -m pip install --quiet --requirement requirements.lock

COPY pyproject.toml README.md LICENSE NOTICE ./
COPY migrations migrations
COPY lagoon lagoon
COPY shoal shoal
COPY api api
COPY worker worker
RUN .venv/bin/python -m pip install --quiet --no-deps --editable .

# The service owns nothing but its data. The code stays root's, so a hole in the service cannot rewrite it;
# that is also why it is compiled here.
RUN .venv/bin/python -m compileall -q lagoon shoal api worker migrations \
    && groupadd --gid 10001 shoal \
    && useradd --uid 10001 --gid shoal --home-dir /data --no-create-home --shell /usr/sbin/nologin shoal \
    && install --directory --owner shoal --group shoal /data

ENV PATH=/opt/shoal/.venv/bin:$PATH \
    SHOAL_DATABASE_URL=sqlite:////data/shoal.db \
    SHOAL_HOST=0.0.0.0 \
    SHOAL_LOG_FORMAT=json

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
CMD ["shoal", "up"]
