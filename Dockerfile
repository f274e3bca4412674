# One image with all commands: trireme-frontend, trireme-filter, trireme-score, trireme-bind, trireme-insight,
# trireme-shadow, trireme. PYTHON_IMAGE: any of Debian with Python 3.11 or newer and its venv module.
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim
FROM ${PYTHON_IMAGE} AS build
ARG SOURCE_DATE_EPOCH=0
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY internal internal
COPY deploy/image image
# An installation without what is never loaded; then a file system with that, Python and their libraries, and nothing else.
RUN python3 -m venv /opt/trireme && /opt/trireme/bin/pip install --no-cache-dir --no-compile . \
    && /opt/trireme/bin/pip uninstall --yes pip setuptools \
    && python3 image/prune.py /opt/trireme/lib/python3*/site-packages \
    && python3 image/rootfs.py /opt/trireme /rootfs

FROM scratch
ARG VERSION
COPY --from=build /rootfs /
# Nothing is written but sockets below /tmp: the root file system may be read-only. HOME is for users without an entry in
# /etc/passwd, of whom Python would not know one.
ENV PATH=/opt/trireme/bin HOME=/ PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 TMPDIR=/tmp LANG=C.UTF-8
LABEL org.opencontainers.image.title=trireme org.opencontainers.image.version=${VERSION} org.opencontainers.image.licenses=Apache-2.0
# Every process runs as any user.
USER 65532:65532
CMD ["trireme-frontend"]
