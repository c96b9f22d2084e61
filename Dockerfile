# One image for all daemons and the command line: `docker run IMAGE peloton-jobmgr -c FILE…`.
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY locks locks
COPY proto proto
COPY peloton peloton
COPY jobmgr jobmgr
COPY resmgr resmgr
COPY placement placement
COPY hostmgr hostmgr
COPY archiver archiver
COPY storage storage
COPY minicluster minicluster
# Wheels of what it needs, with the hashes that are known of them, and of our own code with the stubs made from
# proto/: nothing else is compiled.
RUN pip wheel --require-hashes --only-binary=:all: --wheel-dir /wheels --requirement locks/image.txt
RUN pip install --require-hashes --only-binary=:all: --requirement locks/build.txt \
    && pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .
RUN python -m venv --without-pip /opt/peloton \
    && pip --python /opt/peloton/bin/python install --no-index --no-deps /wheels/*.whl

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="Peloton" \
      org.opencontainers.image.description="A scheduler for batch jobs, services and daemons on one shared cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 peloton \
    && useradd --uid 10001 --gid peloton --create-home --home-dir /var/lib/peloton --shell /usr/sbin/nologin peloton
COPY --from=build /opt/peloton /opt/peloton
ENV PATH=/opt/peloton/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/peloton
EXPOSE 5290-5298 5390-5399
# Asks at HTTP_PORT, which is also how a daemon is told its port.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-m", "peloton.daemon.healthcheck"]
CMD ["peloton", "--help"]
