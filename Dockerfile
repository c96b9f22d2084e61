# One image for all daemons and the command line: `docker run IMAGE peloton-jobmgr -c FILE…`.
# Bases are taken by digest: `make images` asks the registry for it and writes it to .env, where docker compose
# finds it; `docker build` is given it as --build-arg PYTHON_DIGEST=sha256:….
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm
ARG PYTHON_DIGEST

FROM ${PYTHON_IMAGE}@${PYTHON_DIGEST} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# Wheels of what it needs, with the hashes that are known of them: nothing else is compiled. They stay in the
# build's cache while only our own code changes.
COPY locks locks
RUN python -m venv --without-pip /opt/peloton \
    && pip wheel --require-hashes --only-binary=:all: --wheel-dir /wheels --requirement locks/image.txt \
    && pip --python /opt/peloton/bin/python install --no-index --no-deps /wheels/*.whl \
    && rm -r /wheels \
    && find /opt/peloton -type d -name tests -prune -exec rm -r {} +
RUN pip install --require-hashes --only-binary=:all: --requirement locks/build.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY proto proto
COPY peloton peloton
COPY jobmgr jobmgr
COPY resmgr resmgr
COPY placement placement
COPY hostmgr hostmgr
COPY archiver archiver
COPY storage storage
COPY minicluster minicluster
COPY deployer deployer
COPY simulator simulator
# Our own code, with the stubs made from proto/.
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/peloton/bin/python install --no-index --no-deps /wheels/*.whl
COPY tools/sbom.py tools/sbom.py
RUN /opt/peloton/bin/python tools/sbom.py --image > /opt/peloton/sbom.json

FROM ${PYTHON_IMAGE}@${PYTHON_DIGEST}
ARG PYTHON_IMAGE
ARG PYTHON_DIGEST
# The commit that it is built from, where the builder knows it.
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Peloton" \
      org.opencontainers.image.description="A scheduler for batch jobs, services and daemons on one shared cluster" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}" \
      org.opencontainers.image.base.digest="${PYTHON_DIGEST}"
# What builds is of no use at run time.
RUN groupadd --gid 10001 peloton \
    && useradd --uid 10001 --gid peloton --create-home --home-dir /var/lib/peloton --shell /usr/sbin/nologin peloton \
    && find / -xdev \( -path '*/python3*' -o -path '*/bin/*' \) \
         \( -name pip -o -name 'pip-*' -o -name 'pip[0-9]*' -o -name 'wheel*' -o -name 'setuptools*' \
            -o -name pkg_resources -o -name ensurepip \) -prune -exec rm -r {} +
COPY --from=build /opt/peloton /opt/peloton
ENV PATH=/opt/peloton/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/peloton
EXPOSE 5290-5298 5390-5399
# Asks at HTTP_PORT, which is also how a daemon is told its port.
HEALTHCHECK --interval=10s --timeout=15s --start-period=30s --retries=3 CMD ["python", "-m", "peloton.daemon.healthcheck"]
CMD ["peloton", "--help"]
